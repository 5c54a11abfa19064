/** The names of actions, by the first part of the action. */
export const ACTION_GROUPS: Record<string, string> = {
  rule: "Rules",
  list: "Lists",
  approval: "Approvals",
  alert: "Marks of alerts",
  case: "Cases",
  snooze: "Snoozes",
  labels: "Labels",
  subscription: "Subscriptions",
  delivery: "Deliveries",
  role: "Roles",
  token: "Tokens",
  control: "Controls",
  log: "Other writers of the rule log",
  cdc: "Rule table (CDC)",
  person: "Erasures",
};

const ACTION_NAMES: Record<string, string> = {
  "rule.create": "Create",
  "rule.edit": "Edit",
  "rule.state": "Change state of",
  "rule.rollback": "Roll back",
  "rule.import": "Import",
  "rule.delete_all": "Delete with all rules",
  "list.create": "Create",
  "list.change": "Change",
  "list.expire": "Remove expired values of",
  "approval.request": "Request change of",
  "approval.approve": "Approve change of",
  "approval.reject": "Reject change of",
  "approval.withdraw": "Withdraw change of",
  "alert.mark": "Mark",
  "alert.unmark": "Remove mark of",
  "case.comment": "Comment on",
  "case.assign": "Assign",
  "case.status": "Change status of",
  "case.bulk_close": "Close",
  "case.bulk_undo": "Undo",
  "alert.bulk_mark": "Mark",
  snooze: "Snooze",
  unsnooze: "End snooze of",
  "labels.upload": "Upload labels:",
  "person.erase": "Erase",
  "person.certificate": "Keep certificate about",
  "role.bind": "Assign role to",
  "role.unbind": "Remove role of",
  "token.create": "Create",
  "token.revoke": "Revoke",
  "subscription.create": "Create",
  "subscription.edit": "Edit",
  "subscription.delete": "Delete",
  "delivery.retry": "Retry",
  "receiver.test": "Test",
  control: "Send control",
  "log.rule": "Other writer changed",
  "log.delete": "Other writer deleted",
  "log.control": "Other writer sent control",
  "log.overtaken": "Change of another writer overtaken:",
  "cdc.rule": "Rule table changed",
  "cdc.list": "Rule table changed",
  "cdc.refused": "Rule table: rejected row",
  "mirror.refused": "Rule log: rejected record",
};

/** An action in words, before its subject. Unknown actions keep their names. */
export function actionName(action: string): string {
  return ACTION_NAMES[action] ?? action;
}

/** The query parameters of the API for the parameters of the address. */
export function filterOf(params: URLSearchParams): Record<string, string> {
  const about = params.get("about") ?? "";
  const others = ["user", "action", "since"].flatMap((name) => {
    const value = params.get(name);
    return value ? [[name, value] as const] : [];
  });
  return { ...aboutFilter(about), ...Object.fromEntries(others) };
}

/** The filter for a rule's id, the name of a list, or `map` with the name of a map. Any other text filters nothing. */
function aboutFilter(about: string): Record<string, string> {
  if (/^\d{1,18}$/u.test(about)) return { ruleId: about };
  const map = /^map ([a-z][a-z0-9_-]{0,62})$/u.exec(about)?.[1];
  if (map !== undefined) return { mapName: map };
  return /^[a-z][a-z0-9_-]{0,62}$/u.test(about) ? { listName: about } : {};
}
