import type { QueryClient } from "@tanstack/react-query";
import { matchPath } from "react-router";
import { entityQuery, meQuery, ruleQuery, schemaQuery } from "./api/hooks";
import { entityOf } from "./entity/entityPath";
import { BASE_PATH } from "./basePath";

/** The modules of the pages that the first bundle lacks, by the pattern of their path. */
export const MODULES = {
  templates: () => import("./rules/TemplatesPage"),
  rule: () => import("./rules/RulePage"),
  approvals: () => import("./rules/ApprovalsPage"),
  quality: () => import("./alerts/QualityPage"),
  decisions: () => import("./decisions/DecisionsPage"),
  lists: () => import("./lists/ListsPage"),
  list: () => import("./lists/ListPage"),
  cases: () => import("./cases/CasesPage"),
  case: () => import("./cases/CasePage"),
  entity: () => import("./entity/EntityPage"),
  notifications: () => import("./notify/NotificationsPage"),
  data: () => import("./data/DataPage"),
  detector: () => import("./detector/DetectorPage"),
  demo: () => import("./detector/DemoPage"),
  api: () => import("./apiDocs/ApiPage"),
  audit: () => import("./admin/AuditPage"),
  admin: () => import("./admin/AdminPage"),
};

const PATHS: readonly [pattern: string, page: keyof typeof MODULES][] = [
  ["/rules/templates", "templates"],
  ["/rules/:id", "rule"],
  ["/approvals", "approvals"],
  ["/quality", "quality"],
  ["/decisions", "decisions"],
  ["/lists", "lists"],
  ["/lists/:name", "list"],
  ["/maps", "lists"],
  ["/maps/:name", "list"],
  ["/cases", "cases"],
  ["/cases/:id", "case"],
  ["/entity", "entity"],
  ["/notifications", "notifications"],
  ["/data", "data"],
  ["/detector", "detector"],
  ["/demo", "demo"],
  ["/api-docs", "api"],
  ["/audit", "audit"],
  ["/admin", "admin"],
];

const ignore = () => undefined;

/**
 * Starts the reads that every page needs, and loads the module of the first page, while the browser still renders the
 * frame. Errors show when the page is rendered, which reads and loads again.
 */
export function startFirstPage(client: QueryClient, { pathname, search }: Location): void {
  client.query(meQuery).catch(ignore);
  client.query(schemaQuery).catch(ignore);
  const path = pathname.slice(BASE_PATH.length);
  const page = PATHS.find(([pattern]) => matchPath(pattern, path))?.[1];
  if (page === undefined) return;
  MODULES[page]().catch(ignore);
  const params = new URLSearchParams(search);
  if (page === "rule") startRulePage(client, path, params);
  if (page === "entity") client.query(entityQuery(entityOf(params))).catch(ignore);
}

function startRulePage(client: QueryClient, path: string, params: URLSearchParams): void {
  if (!params.has("tab"))
    void Promise.allSettled([import("./rules/editor/CodeEditor"), import("./rules/editor/RuleForm")]);
  const ruleId = matchPath("/rules/:id", path)?.params.id ?? "";
  const read = /^\d+$/u.test(ruleId) ? ruleId : params.get("from");
  if (read !== null) client.query(ruleQuery(read)).catch(ignore);
}
