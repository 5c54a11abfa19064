import { Anchor, Button, Group, Tabs, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useEffect } from "react";
import { Link, useParams, useSearchParams } from "react-router";
import { toText } from "../api/exactJson";
import { ruleQuery, useMe, useSchema } from "../api/hooks";
import type { Me, RuleDetail, RuleUse, Schema } from "../api/types";
import { ActivationChip, Chip, StateChip } from "../components/Chip";
import { ReasonList } from "../components/ErrorAlert";
import { Loading } from "../components/Loading";
import { EmptyState } from "../components/EmptyState";
import { PageHeader, usePageTitle } from "../components/PageHeader";
import { Precision } from "../components/Precision";
import { QueryResult } from "../components/QueryResult";
import { RuleUses } from "../components/RuleUses";
import { Sparkline } from "../components/Sparkline";
import { Timestamp } from "../components/Timestamp";
import { WarmUpChip } from "../components/WarmUpChip";
import { formatMicroseconds } from "../format";
import { isPartial } from "../ruleSentence";
import { ComparePanel } from "./ComparePanel";
import { Editor, preloadEditor } from "./Editor";
import { OutcomePanel } from "./OutcomePanel";
import { PendingApproval } from "./PendingApproval";
import { RuleHealthPanel } from "./RuleHealthPanel";
import { RevisionsPanel } from "./RevisionsPanel";
import { RolloutButton } from "./RolloutButton";
import { StateButtons } from "./StateButtons";
import { findTemplate } from "./templates";
import { useRuleEdit } from "./useRuleEdit";
import { useRuleSave } from "./useRuleSave";

// The library of the charts is large.
const WhatIfPanel = lazy(() => import("./WhatIfPanel").then((module) => ({ default: module.WhatIfPanel })));

/** The page of one rule, of a new rule, of a copy (`?from=`), or of a rule like a template (`?template=`). */
export default function RulePage() {
  const { id } = useParams();
  const [params] = useSearchParams();
  const from = id ?? params.get("from");
  const opensEditor = !params.has("tab");
  useEffect(() => {
    if (opensEditor) preloadEditor();
  }, [opensEditor]);
  const me = useMe();
  const schema = useSchema();
  const read = useQuery({ ...ruleQuery(from ?? ""), enabled: from !== null });
  usePageTitle(id ? `Rule ${id}` : "New rule");
  return (
    <QueryResult query={me}>
      {(user) => (
        <QueryResult query={schema}>
          {(fields) =>
            !id && !user.can.includes("draft") ? (
              <NoNewRule />
            ) : from === null ? (
              <RuleView
                key={`new ${params.get("template") ?? ""}`}
                me={user}
                schema={fields}
                rule={null}
                template={findTemplate(params.get("template"))}
              />
            ) : (
              <QueryResult query={read}>
                {(rule) => (
                  <RuleView
                    key={id ?? `copy of ${from}`}
                    me={user}
                    schema={fields}
                    rule={id ? rule : null}
                    template={id ? null : rule}
                  />
                )}
              </QueryResult>
            )
          }
        </QueryResult>
      )}
    </QueryResult>
  );
}

function NoNewRule() {
  return (
    <>
      <PageHeader title="New rule" />
      <EmptyState>Your role only reads rules. Analysts, approvers and admins create them.</EmptyState>
    </>
  );
}

interface Props {
  me: Me;
  schema: Schema;
  rule: RuleDetail | null;
  template: Pick<RuleDetail, "document"> | null;
}

function RuleView({ me, schema, rule, template }: Props) {
  const [params, setParams] = useSearchParams();
  const tab = params.get("tab") ?? "rule";
  const edit = useRuleEdit(rule, template, me.can.includes("draft") && rule?.state !== "DELETE");
  const save = useRuleSave(rule, edit, tab === "rule");
  return (
    <>
      <PageHeader
        title={rule ? `${rule.ruleId} ${rule.name || "(unnamed)"}` : "New rule"}
        subtitle={
          rule ? <RuleSummary rule={rule} /> : "New rules start as drafts. The detector does not evaluate drafts."
        }
      >
        {!rule && (
          <Button component={Link} variant="default" to="/rules/templates">
            Templates
          </Button>
        )}
        {rule && (
          <>
            <StateButtons rule={rule} me={me} unsaved={edit.dirty} />
            <RolloutButton rule={rule} me={me} unsaved={edit.dirty} />
            {me.can.includes("draft") && (
              <Button component={Link} variant="subtle" to={`/rules/new?from=${rule.ruleId}`}>
                Copy
              </Button>
            )}
          </>
        )}
      </PageHeader>
      {rule?.activation?.status === "REJECTED" && (
        <div className="panel" role="alert" style={{ marginBottom: "1rem", borderColor: "var(--bad)" }}>
          <strong>The detector rejected this revision. The previous one stays in force.</strong>
          <ReasonList reasons={rule.activation.reasons} />
        </div>
      )}
      {rule?.pendingApproval && <PendingApproval approval={rule.pendingApproval} me={me} />}
      {rule && <RuleNames title="Names rules" rules={rule.named} />}
      {rule && <RuleNames title="Named by rules" rules={rule.namedBy} />}
      <Tabs
        value={tab}
        onChange={(value) => setParams((now) => withTab(now, value), { replace: true })}
        keepMounted={false}
      >
        <Tabs.List mb="md">
          <Tabs.Tab value="rule">Rule{edit.dirty && " (unsaved)"}</Tabs.Tab>
          {me.can.includes("whatIf") && <Tabs.Tab value="whatif">What-if</Tabs.Tab>}
          {rule && <Tabs.Tab value="health">Matches</Tabs.Tab>}
          {rule && <Tabs.Tab value="outcome">Outcome</Tabs.Tab>}
          {rule && <Tabs.Tab value="compare">Compare</Tabs.Tab>}
          {rule && <Tabs.Tab value="versions">Revisions</Tabs.Tab>}
        </Tabs.List>
        <Tabs.Panel value="rule">
          <Editor rule={rule} me={me} schema={schema} edit={edit} save={save} />
        </Tabs.Panel>
        <Tabs.Panel value="whatif">
          <Suspense fallback={<Loading />}>
            <WhatIfPanel edit={edit} busy={save.busy} saveDraft={rule ? undefined : () => save.save(() => false)} />
          </Suspense>
        </Tabs.Panel>
        {rule && (
          <Tabs.Panel value="health">
            <RuleHealthPanel ruleId={rule.ruleId} />
          </Tabs.Panel>
        )}
        {rule && (
          <Tabs.Panel value="outcome">
            <OutcomePanel rule={rule} me={me} />
          </Tabs.Panel>
        )}
        {rule && (
          <Tabs.Panel value="compare">
            <ComparePanel rule={rule} me={me} />
          </Tabs.Panel>
        )}
        {rule && (
          <Tabs.Panel value="versions">
            <RevisionsPanel rule={rule} me={me} />
          </Tabs.Panel>
        )}
      </Tabs>
    </>
  );
}

/** The rules that the rule names in its conditions, or those that name it. */
function RuleNames({ title, rules }: { title: string; rules: readonly RuleUse[] }) {
  if (rules.length === 0) return null;
  return (
    <section className="panel" aria-label={title} style={{ marginBottom: "1rem" }}>
      <h2>{title}</h2>
      <RuleUses rules={rules} />
    </section>
  );
}

function RuleSummary({ rule }: { rule: RuleDetail }) {
  const { quality } = rule;
  return (
    <Group gap="xs" mt={4}>
      <StateChip state={rule.state} />
      <ActivationChip activation={rule.activation} state={rule.state} />
      <WarmUpChip activation={rule.activation} />
      {isPartial(rule.document) && (
        <Chip title="Share of the keys for which the detector evaluates the rule">
          {toText(rule.document["rolloutPercent"])} % of keys
        </Chip>
      )}
      <Text size="sm" span>
        revision {rule.revision}
        {rule.activation && ` (rule version ${rule.activation.logVersion})`}
      </Text>
      <Text size="sm" span>
        changed <Timestamp ms={rule.updatedAt} /> by {rule.updatedBy}
      </Text>
      {rule.source !== "ui" && rule.source !== "" && <Chip title="Source of the latest revision">{rule.source}</Chip>}
      <Sparkline counts={rule.alertsLastHour} label="alerts in the last hour" />
      <Anchor component={Link} to={`/alerts?ruleId=${rule.ruleId}`} size="sm" underline="always">
        Show alerts
      </Anchor>
      <RuleCost rule={rule} />
      {quality.payments > 0 && (
        <Group gap={4}>
          <Text size="sm" span>
            precision
          </Text>
          <Precision fraud={quality.fraud} notFraud={quality.notFraud} of={quality.payments} />
        </Group>
      )}
    </Group>
  );
}

/** The CPU time of the rule for each payment: as measured by the detector, or estimated. */
function RuleCost({ rule }: { rule: RuleDetail }) {
  if (rule.cpuNs === null) return null;
  const estimate = formatMicroseconds(rule.cpuNs);
  return (
    <Text
      size="sm"
      span
      title={`The grouping needs about ${formatMicroseconds(rule.groupingCpuNs)} more, once for all its rules.`}
    >
      CPU time per payment{" "}
      {rule.measuredCpuNs === null
        ? `${estimate} (estimate)`
        : `${formatMicroseconds(rule.measuredCpuNs)} (estimate ${estimate})`}
    </Text>
  );
}

/** The parameters of the address with another tab. They keep the rule or the template that a new rule copies. */
function withTab(params: URLSearchParams, tab: string | null): URLSearchParams {
  const others = new URLSearchParams(params);
  if (tab === null || tab === "rule") others.delete("tab");
  else others.set("tab", tab);
  return others;
}
