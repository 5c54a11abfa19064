import { Button, Group, Select, Text } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useSearchParams } from "react-router";
import { useCan, useMe, useRuleNames } from "../api/hooks";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { Mark } from "../alerts/types";
import type { Cases } from "../api/types";
import { Choice } from "../components/Choice";
import { EmptyState } from "../components/EmptyState";
import { LoadMore } from "../components/LoadMore";
import { PageHeader, usePageTitle } from "../components/PageHeader";
import { QueryResult } from "../components/QueryResult";
import { RuleSelect } from "../components/RuleSelect";
import { SeveritySelect } from "../components/SeveritySelect";
import { focusedValue, moveFocus, type Shortcut, useShortcuts } from "../components/shortcuts";
import { ShortcutsHelp } from "../components/ShortcutsHelp";
import { Timestamp } from "../components/Timestamp";
import { TypedText } from "../components/TypedText";
import { BulkDialog } from "./BulkDialog";
import {
  CASE_SORTS,
  caseAddress,
  type CaseFilter,
  caseFilterOf,
  caseQuery,
  OWNER_CHOICES,
  STATUS_CHOICES,
} from "./caseQueue";
import { CaseRows } from "./CaseRows";
import { markShortcuts } from "./markShortcuts";
import { useMarkAll } from "./useCaseChanges";

const REFRESH_MS = 15_000;
const ROWS = "a[data-case]";
const SHORTCUTS: Shortcut[] = [
  { key: "j", name: "Next case", run: () => moveFocus(ROWS, 1) },
  { key: "k", name: "Previous case", run: () => moveFocus(ROWS, -1) },
  { key: "Enter", name: "Open case" },
];

/** The review queue: the cases that match the filter. The keys j and k move between them. */
export default function CasesPage() {
  usePageTitle("Cases");
  const [params, setParams] = useSearchParams();
  const filter = caseFilterOf(params);
  const user = useMe().data?.user ?? "";
  const query = caseQuery(filter, user);
  const cases = useInfiniteQuery({
    queryKey: keys.caseList(query),
    queryFn: ({ pageParam, signal }) =>
      get<Cases>(`/cases?${query}${pageParam === null ? "" : `&after=${pageParam}`}`, signal),
    initialPageParam: null as number | null,
    getNextPageParam: (page) => page.next,
    refetchInterval: REFRESH_MS,
  });
  const can = useCan();
  const markAll = useMarkAll();
  const markFocused = (verdict: Mark["verdict"]) => {
    const row = cases.data?.pages
      .flatMap((page) => page.items)
      .find((each) => String(each.caseId) === focusedValue("case"));
    if (row && row.unreviewed > 0 && !markAll.isPending) markAll.run({ caseId: row.caseId, verdict });
  };
  const shortcuts = [...SHORTCUTS, ...(can("mark") ? markShortcuts("unreviewed alerts of the case", markFocused) : [])];
  useShortcuts(shortcuts);
  const [bulk, setBulk] = useState(false);
  const isBounded = filter.since !== null || filter.until !== null || filter.onlyRule;
  return (
    <>
      <PageHeader title="Cases" subtitle="The alerts of one payer or other ID, to review together">
        {can("workCases") && (
          <Button variant="default" onClick={() => setBulk(true)}>
            Close all that match …
          </Button>
        )}
        <ShortcutsHelp shortcuts={shortcuts} />
      </PageHeader>
      <Filters
        filter={filter}
        change={(members) => setParams((old) => caseAddress({ ...caseFilterOf(old), ...members }), { replace: true })}
      />
      {isBounded && (
        <Group gap="xs" mb="sm">
          <Text size="sm">
            Only cases {filter.onlyRule && "without alerts of other rules"}
            {filter.since !== null && (
              <>
                {" "}
                from <Timestamp ms={filter.since} />
              </>
            )}
            {filter.until !== null && (
              <>
                {" "}
                to <Timestamp ms={filter.until} />
              </>
            )}
          </Text>
          <Button
            variant="subtle"
            size="xs"
            onClick={() =>
              setParams((old) => caseAddress({ ...caseFilterOf(old), since: null, until: null, onlyRule: false }))
            }
          >
            Show all times
          </Button>
        </Group>
      )}
      {bulk && <BulkDialog subject="case" query={query} close={() => setBulk(false)} />}
      <QueryResult query={cases}>
        {({ pages }) => {
          const rows = pages.flatMap((page) => page.items);
          return rows.length === 0 ? (
            <EmptyState>{caseAddress(filter) === "" ? "No open cases" : "No matching cases"}</EmptyState>
          ) : (
            <>
              <CaseRows label="Cases" cases={rows} address={caseAddress(filter)} />
              <LoadMore query={cases} label="Load more cases" />
            </>
          );
        }}
      </QueryResult>
    </>
  );
}

function Filters({ filter, change }: { filter: CaseFilter; change: (members: Partial<CaseFilter>) => void }) {
  const names = useRuleNames();
  return (
    <Group mb="sm" gap="xs" align="center">
      <Choice
        label="Status"
        none="Open and in work"
        names={STATUS_CHOICES}
        value={filter.status}
        change={(status) => change({ status })}
      />
      <Choice
        label="Assignee"
        none="Any assignee"
        names={OWNER_CHOICES}
        value={filter.owner}
        change={(owner) => change({ owner })}
      />
      <SeveritySelect value={filter.severity} change={(severity) => change({ severity })} />
      <RuleSelect names={names} value={filter.ruleId} change={(ruleId) => change({ ruleId })} />
      <TypedText
        label="Search by ID"
        title="The beginning of an ID"
        value={filter.text}
        change={(text) => change({ text })}
      />
      <Select
        aria-label="Order"
        allowDeselect={false}
        data={Object.entries(CASE_SORTS).map(([value, label]) => ({ value, label }))}
        value={filter.sort}
        onChange={(sort) => change({ sort: sort ?? "severity" })}
        w="11rem"
      />
    </Group>
  );
}
