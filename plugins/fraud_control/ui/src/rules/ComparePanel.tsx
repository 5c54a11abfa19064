import { Button, Group, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { stringifyExactly } from "../api/exactJson";
import { ruleQuery, useRuleNames } from "../api/hooks";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { Comparison, Me, RuleDetail, RuleDocument } from "../api/types";
import { EmptyState } from "../components/EmptyState";
import { Precision } from "../components/Precision";
import { QueryResult } from "../components/QueryResult";
import { RuleSelect } from "../components/RuleSelect";
import { ScrollableTable } from "../components/ScrollableTable";
import { Timestamp } from "../components/Timestamp";
import { formatNumber } from "../format";
import { allows, editNeedsApproval } from "./lifecycle";
import { RuleChangeDialog } from "./RuleChangeDialog";

const POLL_MS = 60_000;

/** The members of the replaced rule that stay: what identifies it for people and alerts, and its share of the keys. */
const KEPT = new Set(["ruleId", "ruleState", "name", "description", "owner", "rolloutPercent"]);

/** The alerts of this rule beside those of another one, by payment. A shadow rule can replace the other one. */
export function ComparePanel({ rule, me }: { rule: RuleDetail; me: Me }) {
  const names = useRuleNames();
  const [other, setOther] = useState<number | null>(null);
  const others = new Map([...names].filter(([id]) => id !== rule.ruleId));
  return (
    <div style={{ display: "grid", gap: "1rem" }}>
      <Group>
        <Text size="sm" span>
          Compare with
        </Text>
        <RuleSelect names={others} value={other} change={setOther} />
      </Group>
      {other === null ? (
        <EmptyState>Choose a rule to count the payments for which both rules alert, or only one of them.</EmptyState>
      ) : (
        <Compared rule={rule} me={me} other={other} />
      )}
    </div>
  );
}

function Compared({ rule, me, other }: { rule: RuleDetail; me: Me; other: number }) {
  const comparison = useQuery({
    queryKey: keys.ruleComparison(rule.ruleId, other),
    queryFn: ({ signal }) => get<Comparison>(`/rules/${rule.ruleId}/comparison?with=${other}`, signal),
    refetchInterval: POLL_MS,
  });
  const replaced = useQuery(ruleQuery(String(other)));
  return (
    <QueryResult query={comparison}>
      {({ comparison: found }) =>
        found === null ? (
          <EmptyState>One of the rules does not alert: both must be Active or Shadow.</EmptyState>
        ) : (
          <>
            <Text size="sm" c="dimmed">
              Since <Timestamp ms={found.since} withDate />, from when on both rules have their present content
            </Text>
            <ScrollableTable
              label={`Payments of rules ${rule.ruleId} and ${other}`}
              columns={["Alerts", "Payments", "Fraud", "Not fraud", "Precision"]}
            >
              <Row name="Both rules" payments={found.both} />
              <Row name={`Only rule ${rule.ruleId}`} payments={found.onlyThis} />
              <Row name={`Only rule ${other}`} payments={found.onlyOther} />
            </ScrollableTable>
            {replaced.data && rule.state === "SHADOW" && <Promote shadow={rule} live={replaced.data} me={me} />}
          </>
        )
      }
    </QueryResult>
  );
}

function Row({ name, payments }: { name: string; payments: NonNullable<Comparison["comparison"]>["both"] }) {
  return (
    <Table.Tr>
      <Table.Td>{name}</Table.Td>
      <Table.Td className="number">{formatNumber(payments.payments)}</Table.Td>
      <Table.Td className="number">{formatNumber(payments.fraud)}</Table.Td>
      <Table.Td className="number">{formatNumber(payments.notFraud)}</Table.Td>
      <Table.Td>
        <Precision fraud={payments.fraud} notFraud={payments.notFraud} of={payments.payments} />
      </Table.Td>
    </Table.Tr>
  );
}

/** Gives the live rule the content of the shadow rule. It stays the same rule, so its cool-downs continue. */
function Promote({ shadow, live, me }: { shadow: RuleDetail; live: RuleDetail; me: Me }) {
  const [open, setOpen] = useState(false);
  if (live.state !== "ACTIVE" || !allows(me, "draft")) return null;
  const needsApproval = editNeedsApproval(live.state, me);
  const label = needsApproval ? `Request promotion to rule ${live.ruleId}` : `Promote to rule ${live.ruleId}`;
  return (
    <Group>
      <Button variant="default" disabled={needsApproval && live.pendingApproval !== null} onClick={() => setOpen(true)}>
        {label}
      </Button>
      {open && (
        <RuleChangeDialog
          rule={live}
          needsApproval={needsApproval}
          title={label}
          label={label}
          request={(base, comment) => ({
            path: `/rules/${base.ruleId}`,
            method: "PUT",
            body: { text: stringifyExactly(promoted(shadow.document, base.document)), comment },
          })}
          successMessage={({ ruleId, revision }) => `Rule ${ruleId} saved as revision ${revision}`}
          close={() => setOpen(false)}
        >
          <Text size="sm">
            Rule {live.ruleId} gets the conditions, windows and limits of rule {shadow.ruleId}. It keeps its name, its
            share of the keys, its history and its cool-downs. Rule {shadow.ruleId} stays in Shadow.
          </Text>
        </RuleChangeDialog>
      )}
    </Group>
  );
}

/** The live rule with the content of the shadow rule. */
function promoted(shadow: RuleDocument, live: RuleDocument): RuleDocument {
  const kept = Object.entries(live).filter(([name]) => KEPT.has(name));
  const content = Object.entries(shadow).filter(([name]) => !KEPT.has(name));
  return Object.fromEntries([...kept, ...content]);
}
