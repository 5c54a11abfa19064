import { Alert, Button, Group, SegmentedControl, Text } from "@mantine/core";
import { useHotkeys } from "@mantine/hooks";
import { lazy, Suspense, useRef } from "react";
import { useLists, useMaps, useRuleNames } from "../api/hooks";
import type { Me, Reason, RuleDetail, Schema } from "../api/types";
import { ChangeTable } from "../components/ChangeTable";
import { CommentInput } from "../components/CommentInput";
import { ErrorAlert, ReasonList } from "../components/ErrorAlert";
import { Loading } from "../components/Loading";
import { suggestions } from "./editor/completion";
import { membersWithoutLine } from "./editor/draft";
import { editNeedsApproval } from "./lifecycle";
import type { RuleEdit } from "./useRuleEdit";
import type { RuleSave } from "./useRuleSave";

const loadCodeEditor = () => import("./editor/CodeEditor");
const loadRuleForm = () => import("./editor/RuleForm");
const CodeEditor = lazy(() => loadCodeEditor().then((module) => ({ default: module.CodeEditor })));
const RuleForm = lazy(() => loadRuleForm().then((module) => ({ default: module.RuleForm })));

/** Loads the modules of the editor while the page reads its data. An error shows when the editor is rendered. */
export function preloadEditor(): void {
  void Promise.allSettled([loadCodeEditor(), loadRuleForm()]);
}

interface Props {
  rule: RuleDetail | null;
  me: Me;
  schema: Schema;
  edit: RuleEdit;
  save: RuleSave;
}

/** The editor of a rule: form and text side by side, validation errors, and the save button. */
export function Editor({ rule, me, schema, edit, save }: Props) {
  const { draft, validation } = edit;
  const lookups = { lists: useLists().data?.items ?? [], maps: useMaps().data?.items ?? [], rules: useRuleNames() };
  const readOnly = !me.can.includes("draft") || rule?.state === "DELETE";
  // A save replaces the draft with the stored rule, so the editor is locked until it ends.
  const isLocked = readOnly || save.busy;
  const needsApproval = rule !== null && editNeedsApproval(rule.state, me);
  const isUnchanged = rule !== null && !edit.dirty;
  const commentRef = useRef<HTMLInputElement>(null);
  const resultRef = useRef<HTMLDivElement>(null);
  const found = draft.parseError ? [{ field: "record", message: draft.parseError }] : validation.reasons;
  const { touched } = edit;
  const reasons = touched === null ? found : found.filter(({ field }) => touched.has(field.split(".")[0] ?? ""));
  const hasNoLine = edit.format !== "line" && edit.line === null;
  const warnings = validation.current?.warnings ?? [];

  const submit = () => {
    if (readOnly || isUnchanged || commentRef.current?.reportValidity() === false) return;
    save.save(() => {
      edit.touchAll();
      resultRef.current?.focus();
      return resultRef.current !== null;
    });
  };
  // Also inside the text editor, which the browser does not treat as an input.
  useHotkeys([["mod+S", submit]], [], true);

  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
      noValidate
    >
      {edit.outdated && !save.busy && rule && <ConflictAlert rule={rule} edit={edit} />}
      <Suspense fallback={<Loading />}>
        <div className="sides">
          <section className="panel" aria-label="Form">
            <RuleForm
              document={edit.document}
              schema={schema}
              lookups={lookups}
              reasons={reasons}
              warnings={warnings}
              readOnly={isLocked}
              change={edit.setMembers}
            />
          </section>
          <section
            className="panel"
            aria-label="Text"
            style={{ display: "flex", flexDirection: "column", gap: "0.625rem" }}
          >
            <Group justify="space-between" gap="xs">
              <SegmentedControl
                size="xs"
                aria-label="Text format"
                value={edit.format}
                readOnly={save.busy}
                onChange={(value) => edit.setFormat(value)}
                data={[
                  { value: "yaml", label: "YAML" },
                  { value: "json", label: "JSON" },
                  { value: "line", label: "One line", disabled: hasNoLine },
                ]}
              />
              <Text size="xs" c="dimmed">
                {edit.format === "line"
                  ? "id, state, per, distinct, field, aggregate, comparison, limit, minutes"
                  : hasNoLine && validation.current?.valid
                    ? `One line cannot express ${membersWithoutLine(validation.current.document).join(", ")}`
                    : "Ctrl Space: complete a name"}
              </Text>
            </Group>
            <CodeEditor
              label="Rule text"
              value={edit.text}
              onChange={edit.setText}
              suggest={(before) => suggestions(edit.format, before, schema, lookups)}
              reasons={reasons}
              invalid={reasons.length > 0}
              readOnly={isLocked}
              {...(edit.format === "line" ? {} : { language: edit.format })}
            />
            <div ref={resultRef} tabIndex={-1} role="status" aria-label="Validation">
              {!readOnly && <ValidationResult edit={edit} reasons={reasons} missing={found} />}
            </div>
            {!readOnly && validation.current?.valid && rule && validation.current.changes.length > 0 && (
              <details>
                <summary>
                  {validation.current.changes.length === 1
                    ? "1 change"
                    : `${validation.current.changes.length} changes`}{" "}
                  from the stored revision
                </summary>
                <ChangeTable changes={validation.current.changes} />
              </details>
            )}
          </section>
        </div>
      </Suspense>
      {save.error && <ErrorAlert error={save.error} />}
      {!readOnly && (
        <Group mt="md" gap="xs" align="flex-end">
          <CommentInput
            ref={commentRef}
            comment={save.comment}
            change={save.setComment}
            asksApproval={needsApproval}
            placeholder="Reason for the change"
            readOnly={save.busy}
            style={{ flex: "1 1 14rem", maxWidth: "32rem" }}
          />
          <Button type="submit" size="sm" loading={save.busy} disabled={isUnchanged}>
            {rule === null ? "Save as draft" : needsApproval ? "Request change" : "Save"}
          </Button>
          {rule && edit.dirty && (
            <Button variant="subtle" size="sm" disabled={save.busy} onClick={() => edit.reset(rule)}>
              Discard
            </Button>
          )}
          {rule?.state === "ACTIVE" && !needsApproval && edit.dirty && (
            <Text size="sm" c="dimmed">
              Takes effect immediately: the rule is active.
            </Text>
          )}
        </Group>
      )}
    </form>
  );
}

function ValidationResult({
  edit,
  reasons,
  missing,
}: {
  edit: RuleEdit;
  reasons: readonly Reason[];
  /** All reasons, also those for members of a new rule that the user has not edited. */
  missing: readonly Reason[];
}) {
  const { validation, draft } = edit;
  if (validation.error && !validation.current) return <ErrorAlert error={validation.error} />;
  if (reasons.length > 0) {
    return (
      <div style={{ color: "var(--mantine-color-error)", fontSize: "var(--mantine-font-size-sm)" }}>
        {reasons.length === 1 ? "1 error:" : `${reasons.length} errors:`}
        <ReasonList reasons={reasons} />
      </div>
    );
  }
  if (missing.length > 0) {
    return (
      <Text size="sm" c="dimmed">
        Still missing: {missingText(missing)}.
      </Text>
    );
  }
  if (draft.parseError === null && validation.current?.valid) {
    return (
      <>
        <Text size="sm">
          <strong style={{ color: "var(--good)" }}>Valid.</strong> {validation.current.says}
        </Text>
        {validation.current.warnings.length > 0 && (
          <div style={{ color: "var(--warn)", fontSize: "var(--mantine-font-size-sm)" }}>
            Warning:
            <ReasonList reasons={validation.current.warnings} />
          </div>
        )}
      </>
    );
  }
  return (
    <Text size="sm" c="dimmed">
      Validating …
    </Text>
  );
}

const MEMBER_NAMES: Record<string, string> = {
  groupingKeyNames: "grouping keys",
  aggregatorFunctionType: "aggregate",
  aggregateFieldName: "aggregated field",
  unique: "distinct fields",
  limitOperatorType: "comparison",
  limit: "limit",
  windowMinutes: "window",
  windowSeconds: "window",
  windowCalendar: "window",
  zone: "time zone",
  resolutionSeconds: "steps",
};

/** The members of the reasons by their labels in the form: grouping keys, limit. */
function missingText(reasons: readonly Reason[]): string {
  const members = reasons.map(({ field }) => field.split(".")[0] ?? field);
  return [...new Set(members.map((name) => MEMBER_NAMES[name] ?? name))].join(", ");
}

function ConflictAlert({ rule, edit }: { rule: RuleDetail; edit: RuleEdit }) {
  return (
    <Alert
      color="yellow"
      variant="outline"
      title={`${rule.updatedBy} saved revision ${rule.revision} after you started`}
      mb="md"
      role="alert"
    >
      <Text size="sm">Your edit starts from revision {edit.baseRevision}.</Text>
      <Group gap="xs" mt="xs">
        <Button variant="default" onClick={() => edit.reset(rule)}>
          Discard my edit
        </Button>
        <Button variant="default" onClick={() => edit.rebase(rule)}>
          Keep my edit and overwrite
        </Button>
      </Group>
    </Alert>
  );
}
