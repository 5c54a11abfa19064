import { Alert, Button, Group, Loader, SegmentedControl, Text, TextInput } from "@mantine/core";
import { useHotkeys } from "@mantine/hooks";
import { lazy, Suspense, useRef } from "react";
import type { Me, RuleDetail, Schema } from "../api/types";
import { Changes } from "../parts/Changes";
import { Reasons, Trouble } from "../parts/Told";
import { offers } from "./editor/completion";
import { editAsks } from "./lifecycle";
import type { Writing } from "./useRuleDraft";
import type { Saving } from "./useSaving";

const CodeEditor = lazy(() => import("./editor/CodeEditor").then((module) => ({ default: module.CodeEditor })));
const RuleForm = lazy(() => import("./editor/RuleForm").then((module) => ({ default: module.RuleForm })));

interface Props {
  rule: RuleDetail | null;
  me: Me;
  schema: Schema;
  writing: Writing;
  saving: Saving;
}

/** The rule as a form and as text, side by side; what is wrong with it; and its saving. */
export function Editor({ rule, me, schema, writing, saving }: Props) {
  const { draft, judged } = writing;
  const readOnly = !me.can.includes("draft") || rule?.state === "DELETE";
  // What is written while it is being saved would be lost: it goes on from what is stored then.
  const fixed = readOnly || saving.busy;
  const asks = rule !== null && editAsks(rule.state, me);
  const nothingNew = rule !== null && !writing.dirty;
  const wrong = useRef<HTMLDivElement>(null);
  const reasons = draft.fault ? [{ field: "record", message: draft.fault }] : judged.reasons;

  const submit = () => {
    if (readOnly || nothingNew) return;
    saving.save(() => {
      wrong.current?.focus();
      return wrong.current !== null;
    });
  };
  // In the text editor, too, which is no input to a browser.
  useHotkeys([["mod+S", submit]], [], true);

  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
      noValidate
    >
      {writing.overtaken && !saving.busy && rule && <Overtaken rule={rule} writing={writing} />}
      <Suspense fallback={<Loader size="sm" aria-label="Loading" />}>
        <div className="sides">
          <section className="panel" aria-label="Form">
            <RuleForm
              document={writing.document}
              schema={schema}
              reasons={reasons}
              readOnly={fixed}
              change={writing.change}
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
                value={writing.form}
                readOnly={saving.busy}
                onChange={(value) => writing.show(value)}
                data={[
                  { value: "yaml", label: "YAML" },
                  { value: "json", label: "JSON" },
                  { value: "line", label: "One line", disabled: writing.form !== "line" && writing.line === null },
                ]}
              />
              <Text size="xs" c="dimmed">
                {writing.form === "line"
                  ? "id, state, per, distinct, field, aggregate, comparison, limit, minutes"
                  : "Ctrl Space: complete a name"}
              </Text>
            </Group>
            <CodeEditor
              label="Rule text"
              value={writing.text}
              onChange={writing.type}
              offers={(before) => offers(writing.form, before, schema)}
              reasons={reasons}
              invalid={reasons.length > 0}
              readOnly={fixed}
              {...(writing.form === "line" ? {} : { language: writing.form })}
            />
            <div ref={wrong} tabIndex={-1} role="status" aria-label="Validation">
              {!readOnly && <Verdict writing={writing} reasons={reasons} />}
            </div>
            {!readOnly && judged.current?.valid && rule && judged.current.changes.length > 0 && (
              <details>
                <summary>
                  {judged.current.changes.length === 1 ? "1 change" : `${judged.current.changes.length} changes`} from
                  the stored revision
                </summary>
                <Changes changes={judged.current.changes} />
              </details>
            )}
          </section>
        </div>
      </Suspense>
      {saving.error && <Trouble error={saving.error} />}
      {!readOnly && (
        <Group mt="md" gap="xs" align="flex-end">
          <TextInput
            label="Comment"
            placeholder="Reason for the change"
            value={saving.comment}
            maxLength={500}
            readOnly={saving.busy}
            onChange={(event) => saving.setComment(event.currentTarget.value)}
            style={{ flex: "1 1 14rem", maxWidth: "32rem" }}
          />
          <Button type="submit" size="sm" loading={saving.busy} disabled={nothingNew}>
            {rule === null ? "Save as draft" : asks ? "Request change" : "Save"}
          </Button>
          {rule && writing.dirty && (
            <Button variant="subtle" size="sm" disabled={saving.busy} onClick={() => writing.reset(rule)}>
              Discard
            </Button>
          )}
          {rule?.state === "ACTIVE" && !asks && writing.dirty && (
            <Text size="sm" c="dimmed">
              Takes effect immediately: the rule is active.
            </Text>
          )}
        </Group>
      )}
    </form>
  );
}

function Verdict({ writing, reasons }: { writing: Writing; reasons: readonly { field: string; message: string }[] }) {
  const { judged, draft } = writing;
  if (judged.error && !judged.current) return <Trouble error={judged.error} />;
  if (reasons.length > 0) {
    return (
      <div style={{ color: "var(--mantine-color-error)", fontSize: "var(--mantine-font-size-sm)" }}>
        {reasons.length === 1 ? "1 error:" : `${reasons.length} errors:`}
        <Reasons reasons={reasons} />
      </div>
    );
  }
  if (draft.fault === null && judged.current?.valid) {
    return (
      <Text size="sm">
        <strong style={{ color: "var(--good)" }}>Valid.</strong> {judged.current.says}
      </Text>
    );
  }
  return (
    <Text size="sm" c="dimmed">
      Validating …
    </Text>
  );
}

function Overtaken({ rule, writing }: { rule: RuleDetail; writing: Writing }) {
  return (
    <Alert
      color="yellow"
      variant="outline"
      title={`${rule.updatedBy} saved revision ${rule.revision} after you started`}
      mb="md"
      role="alert"
    >
      <Text size="sm">Your edit starts from revision {writing.base}.</Text>
      <Group gap="xs" mt="xs">
        <Button variant="default" onClick={() => writing.reset(rule)}>
          Discard my edit
        </Button>
        <Button variant="default" onClick={() => writing.rebase(rule)}>
          Keep my edit and overwrite
        </Button>
      </Group>
    </Alert>
  );
}
