import { Anchor, Button, Group, Tabs, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useParams, useSearchParams } from "react-router";
import { useMe, useSchema } from "../api/hooks";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { Me, RuleDetail, Schema } from "../api/types";
import { At } from "../parts/At";
import { Chip, LiveMark, StateChip } from "../parts/Chip";
import { number, percent } from "../parts/format";
import { Head, useTitle } from "../parts/Head";
import { Sparkline } from "../parts/Sparkline";
import { Reasons, Shown } from "../parts/Told";
import { Editor } from "./Editor";
import { PendingApproval } from "./PendingApproval";
import { StateButtons } from "./StateButtons";
import { useRuleDraft } from "./useRuleDraft";
import { useSaving } from "./useSaving";
import { VersionsPanel } from "./VersionsPanel";
import { WhatIfPanel } from "./WhatIfPanel";

/** One rule, or a new one (perhaps a copy, `?from=`). */
export default function RulePage() {
  const { id } = useParams();
  const [params] = useSearchParams();
  const from = id ?? params.get("from");
  const me = useMe();
  const schema = useSchema();
  const read = useQuery({
    queryKey: keys.rule(Number(from)),
    queryFn: ({ signal }) => get<RuleDetail>(`/rules/${encodeURIComponent(from ?? "")}`, signal),
    enabled: from !== null,
  });
  useTitle(id ? `Rule ${id}` : "New rule");
  return (
    <Shown of={me}>
      {(who) => (
        <Shown of={schema}>
          {(fields) =>
            from === null ? (
              <OneRule key="new" me={who} schema={fields} rule={null} template={null} />
            ) : (
              <Shown of={read}>
                {(rule) => (
                  <OneRule
                    key={id ?? `copy of ${from}`}
                    me={who}
                    schema={fields}
                    rule={id ? rule : null}
                    template={id ? null : rule}
                  />
                )}
              </Shown>
            )
          }
        </Shown>
      )}
    </Shown>
  );
}

interface Props {
  me: Me;
  schema: Schema;
  rule: RuleDetail | null;
  template: RuleDetail | null;
}

function OneRule({ me, schema, rule, template }: Props) {
  const [params, setParams] = useSearchParams();
  const tab = params.get("tab") ?? "rule";
  const writing = useRuleDraft(rule, template, me.can.includes("draft") && rule?.state !== "DELETE");
  const saving = useSaving(rule, writing, tab === "rule");
  return (
    <>
      <Head
        title={rule ? `${rule.ruleId} ${rule.name || "(unnamed)"}` : "New rule"}
        about={rule ? <About rule={rule} /> : "New rules start as drafts. The detector does not evaluate drafts."}
      >
        {rule && (
          <>
            <StateButtons rule={rule} me={me} unsaved={writing.dirty} />
            {me.can.includes("draft") && (
              <Button component={Link} variant="subtle" to={`/rules/new?from=${rule.ruleId}`}>
                Copy
              </Button>
            )}
          </>
        )}
      </Head>
      {rule?.activation?.status === "REJECTED" && (
        <div className="panel" role="alert" style={{ marginBottom: "1rem", borderColor: "var(--bad)" }}>
          <strong>The detector rejected this revision. The previous one stays in force.</strong>
          <Reasons reasons={rule.activation.reasons} />
        </div>
      )}
      {rule?.pendingApproval && <PendingApproval approval={rule.pendingApproval} me={me} />}
      <Tabs
        value={tab}
        onChange={(value) => setParams(value && value !== "rule" ? { tab: value } : {}, { replace: true })}
        keepMounted={false}
      >
        <Tabs.List mb="md">
          <Tabs.Tab value="rule">Rule{writing.dirty && " (unsaved)"}</Tabs.Tab>
          {me.can.includes("whatIf") && <Tabs.Tab value="whatif">What-if</Tabs.Tab>}
          {rule && <Tabs.Tab value="versions">Revisions</Tabs.Tab>}
        </Tabs.List>
        <Tabs.Panel value="rule">
          <Editor rule={rule} me={me} schema={schema} writing={writing} saving={saving} />
        </Tabs.Panel>
        <Tabs.Panel value="whatif">
          <WhatIfPanel writing={writing} busy={saving.busy} />
        </Tabs.Panel>
        {rule && (
          <Tabs.Panel value="versions">
            <VersionsPanel rule={rule} me={me} />
          </Tabs.Panel>
        )}
      </Tabs>
    </>
  );
}

function About({ rule }: { rule: RuleDetail }) {
  const { quality } = rule;
  return (
    <Group gap="xs" mt={4}>
      <StateChip state={rule.state} />
      <LiveMark activation={rule.activation} state={rule.state} />
      <Text size="sm" span>
        revision {rule.revision}
        {rule.activation && ` (rule version ${rule.activation.logVersion})`}
      </Text>
      <Text size="sm" span>
        changed <At ms={rule.updatedAt} /> by {rule.updatedBy}
      </Text>
      {rule.source !== "ui" && rule.source !== "" && <Chip title="Source of the latest revision">{rule.source}</Chip>}
      <Sparkline counts={rule.alertsLastHour} label="alerts in the last hour" />
      <Anchor component={Link} to={`/alerts?rule=${rule.ruleId}`} size="sm" underline="always">
        Show alerts
      </Anchor>
      {quality.precision !== null && (
        <Text size="sm" span>
          precision {percent(quality.precision)} ({number(quality.fraud + quality.notFraud)} marked alerts)
        </Text>
      )}
    </Group>
  );
}
