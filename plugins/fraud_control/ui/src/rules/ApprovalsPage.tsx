import { Switch } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useSearchParams } from "react-router";
import { useMe, useRules } from "../api/hooks";
import { get, queryString } from "../api/http";
import { keys } from "../api/keys";
import type { Approval, Approvals, Me, RuleDocument, RuleRow } from "../api/types";
import { ChangeTable } from "../components/ChangeTable";
import { Chip, StateChip } from "../components/Chip";
import { EmptyState } from "../components/EmptyState";
import { LoadMore } from "../components/LoadMore";
import { PageHeader, usePageTitle } from "../components/PageHeader";
import { QueryResult } from "../components/QueryResult";
import { RuleText } from "../components/RuleText";
import { Timestamp } from "../components/Timestamp";
import { formatCount, formatNumber } from "../format";
import { ApprovalFigures } from "./ApprovalFigures";
import { capital, type CollectionKind, LIST, MAP, pathOf } from "../lists/types";
import { changesBetween } from "./changes";
import { DecisionForm, DECISIONS, requestText } from "./PendingApproval";

const PAGE = 50;

/** Requests that await approval; with the switch, decided requests too. */
export default function ApprovalsPage() {
  usePageTitle("Approvals");
  const me = useMe();
  const rules = useRules();
  const [params, setParams] = useSearchParams();
  const all = params.get("decided") === "true";
  const approvals = useInfiniteQuery({
    queryKey: [...keys.approvals, all ? "all" : "listed"],
    queryFn: ({ pageParam, signal }) =>
      get<Approvals>(`/approvals${queryString({ open: !all, limit: PAGE, before: pageParam })}`, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
  });
  const items = approvals.data?.pages.flatMap((page) => page.items) ?? [];
  const rowOf = (id: number) => rules.data?.items.find((row) => row.ruleId === id);
  return (
    <>
      <PageHeader title="Approvals">
        <Switch
          label="Show decided"
          checked={all}
          onChange={(event) => setParams(event.currentTarget.checked ? { decided: "true" } : {}, { replace: true })}
        />
      </PageHeader>
      <QueryResult query={approvals}>
        {() =>
          items.length === 0 ? (
            <EmptyState>{all ? "No requests yet" : "No requests awaiting approval"}</EmptyState>
          ) : (
            <>
              <ul style={{ listStyle: "none", margin: 0, padding: 0, display: "grid", gap: "0.75rem" }}>
                {items.map((approval) => (
                  <li key={approval.id} className="panel">
                    <ApprovalItem
                      approval={approval}
                      row={approval.ruleId === null ? undefined : rowOf(approval.ruleId)}
                      name={approval.ruleId === null ? "" : (rowOf(approval.ruleId)?.name ?? "")}
                      me={me.data}
                    />
                  </li>
                ))}
              </ul>
              <LoadMore query={approvals} label="Load older requests" />
            </>
          )
        }
      </QueryResult>
    </>
  );
}

function ApprovalItem({
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
  const collection = collectionOf(approval);
  return (
    <article
      aria-label={collection ? `${capital(collection.kind.name)} ${collection.name}` : `Rule ${approval.ruleId}`}
    >
      <div style={{ display: "flex", flexWrap: "wrap", gap: "0.5rem", alignItems: "center" }}>
        {collection ? (
          <Link to={pathOf(collection.kind, collection.name)} className="wrap" style={{ fontWeight: 600 }}>
            {collection.name}
          </Link>
        ) : (
          <Link to={`/rules/${approval.ruleId}`} className="wrap" style={{ fontWeight: 600 }}>
            {approval.ruleId} {name}
          </Link>
        )}
        {row && <StateChip state={row.state} />}
        <Chip tone="warn">{requestText(approval)}</Chip>
        <span
          style={{ color: "var(--mantine-color-dimmed)", fontSize: "var(--mantine-font-size-sm)" }}
          className="wrap"
        >
          {approval.requestedBy}, <Timestamp ms={approval.requestedAt} />
          {approval.comment && `: ${approval.comment}`}
        </span>
      </div>
      <div style={{ margin: "0.375rem 0" }}>
        {approval.ruleId === null ? (
          <span className="code">{listedValues(approval.document)}</span>
        ) : (
          <RuleText rule={approval.document} withLine />
        )}
      </div>
      {row && approval.decision === null && approval.action !== "state" && (
        <ChangeTable changes={changesBetween(row.document, approval.document)} />
      )}
      {approval.decision === null && approval.ruleId !== null && me && <ApprovalFigures approval={approval} me={me} />}
      {approval.decision === null ? (
        me && <DecisionForm approval={approval} me={me} />
      ) : (
        <p style={{ margin: "0.375rem 0 0" }}>
          <Chip tone={approval.decision === "APPROVED" ? "good" : "bad"}>{DECISIONS[approval.decision]}</Chip>{" "}
          {approval.decidedBy}
          {approval.decisionComment && `: ${approval.decisionComment}`}
          {approval.decidedAt !== null && (
            <>
              , <Timestamp ms={approval.decidedAt} />
            </>
          )}
        </p>
      )}
    </article>
  );
}

const SHOWN_VALUES = 20;

/** The list or map of a request; null for a rule. */
function collectionOf({ listName, mapName }: Approval): { kind: CollectionKind; name: string } | null {
  if (mapName !== null) return { kind: MAP, name: mapName };
  return listName === null ? null : { kind: LIST, name: listName };
}

/** The first values of a change of a list or map; their number for a role that does not see values. */
function listedValues(document: RuleDocument): string {
  const { values, count } = document as { values: string[]; count: number };
  const shown = values.slice(0, SHOWN_VALUES);
  if (shown.length === 0 && count > 0) return formatCount(count, "value");
  return `${shown.join(", ")}${count > shown.length ? ` and ${formatNumber(count - shown.length)} more` : ""}`;
}
