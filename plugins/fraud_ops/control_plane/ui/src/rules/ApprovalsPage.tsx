import { Switch } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-router";
import { useMe, useRuleNames, useRules } from "../api/hooks";
import { get, query } from "../api/http";
import { keys } from "../api/keys";
import type { Approval, Approvals, Me, RuleRow } from "../api/types";
import { At } from "../parts/At";
import { Changes } from "../parts/Changes";
import { Chip, StateChip } from "../parts/Chip";
import { formula } from "../parts/format";
import { Further } from "../parts/Further";
import { Head, useTitle } from "../parts/Head";
import { Nothing, Shown } from "../parts/Told";
import { changesBetween } from "./changes";
import { askedFor, Decide } from "./PendingApproval";

const PAGE = 50;

/** What waits for a second person; on request also what was decided. */
export default function ApprovalsPage() {
  useTitle("Approvals");
  const me = useMe();
  const rules = useRules();
  const names = useRuleNames();
  const [all, setAll] = useState(false);
  const approvals = useInfiniteQuery({
    queryKey: [...keys.approvals, all ? "all" : "listed"],
    queryFn: ({ pageParam, signal }) =>
      get<Approvals>(`/approvals${query({ open: !all, limit: PAGE, before: pageParam })}`, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
  });
  const items = approvals.data?.pages.flatMap((page) => page.items) ?? [];
  const rowOf = (id: number) => rules.data?.items.find((row) => row.ruleId === id);
  return (
    <>
      <Head title="Approvals">
        <Switch label="Show decided" checked={all} onChange={(event) => setAll(event.currentTarget.checked)} />
      </Head>
      <Shown of={approvals}>
        {() =>
          items.length === 0 ? (
            <Nothing>{all ? "No requests yet" : "No requests awaiting approval"}</Nothing>
          ) : (
            <>
              <ul style={{ listStyle: "none", margin: 0, padding: 0, display: "grid", gap: "0.75rem" }}>
                {items.map((approval) => (
                  <li key={approval.id} className="panel">
                    <One
                      approval={approval}
                      row={rowOf(approval.ruleId)}
                      name={names.get(approval.ruleId) ?? ""}
                      me={me.data}
                    />
                  </li>
                ))}
              </ul>
              <Further of={approvals} label="Load older requests" />
            </>
          )
        }
      </Shown>
    </>
  );
}

function One({
  approval,
  row,
  name,
  me,
}: {
  approval: Approval;
  row: RuleRow | undefined;
  name: string;
  me: Me | undefined;
}) {
  return (
    <article aria-label={`Rule ${approval.ruleId}`}>
      <div style={{ display: "flex", flexWrap: "wrap", gap: "0.5rem", alignItems: "center" }}>
        <Link to={`/rules/${approval.ruleId}`} className="wrap" style={{ fontWeight: 600 }}>
          {approval.ruleId} {name}
        </Link>
        {row && <StateChip state={row.state} />}
        <Chip tone="warn">{askedFor(approval)}</Chip>
        <span
          style={{ color: "var(--mantine-color-dimmed)", fontSize: "var(--mantine-font-size-sm)" }}
          className="wrap"
        >
          {approval.requestedBy}, <At ms={approval.requestedAt} />
          {approval.comment && `: ${approval.comment}`}
        </span>
      </div>
      <div className="code" style={{ margin: "0.375rem 0" }}>
        {formula(approval.document)}
      </div>
      {row && approval.decision === null && approval.action !== "state" && (
        <Changes changes={changesBetween(row.document, approval.document)} />
      )}
      {approval.decision === null ? (
        me && <Decide approval={approval} me={me} />
      ) : (
        <p style={{ margin: "0.375rem 0 0" }}>
          <Chip tone={approval.decision === "APPROVED" ? "good" : "bad"}>{approval.decision.toLowerCase()}</Chip>{" "}
          {approval.decidedBy}
          {approval.decidedAt !== null && (
            <>
              , <At ms={approval.decidedAt} />
            </>
          )}
        </p>
      )}
    </article>
  );
}
