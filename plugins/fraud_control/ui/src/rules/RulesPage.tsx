import { Box, Button, Group, Select, Table, TextInput, UnstyledButton } from "@mantine/core";
import { IconArrowDown, IconArrowUp, IconPlus, IconSearch, IconUpload } from "@tabler/icons-react";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useDeferredValue, useLayoutEffect, useRef, useState } from "react";
import { Link, useNavigate, useSearchParams } from "react-router";
import { useCan, useRules } from "../api/hooks";
import type { RuleRow, StateName } from "../api/types";
import { ActivationChip, Chip, StateChip, stateName } from "../components/Chip";
import { EmptyState } from "../components/EmptyState";
import { ExportMenu } from "../components/ExportMenu";
import { PageHeader, usePageTitle } from "../components/PageHeader";
import { Precision } from "../components/Precision";
import { QueryResult } from "../components/QueryResult";
import { RuleText } from "../components/RuleText";
import { SeverityChip } from "../components/SeverityChip";
import { Sparkline } from "../components/Sparkline";
import { Timestamp } from "../components/Timestamp";
import { WarmUpChip } from "../components/WarmUpChip";
import { formatNumber, formatTime } from "../format";
import { useOutage } from "../outage/useLiveness";
import { ImportRulesDialog } from "./ImportRulesDialog";
import { requestText } from "./PendingApproval";
import { RejectedRecords } from "./RejectedRecords";
import { type Column, filterRules, sortRules } from "./ruleList";

const NOISE =
  "Live alerts per day of the last week × the expected share of false ones: (not fraud + 1) / (labelled + 2). " +
  "Without labels, half of the alerts count as false.";

const STATES: StateName[] = ["ACTIVE", "SIGNAL", "SHADOW", "PAUSE", "DRAFT"];

/** All rules, sorted and filtered by the parameters in the URL. */
export function RulesPage() {
  usePageTitle("Rules");
  const rules = useRules();
  const can = useCan();
  const navigate = useNavigate();
  const [params, setParams] = useSearchParams();
  const [importing, setImporting] = useState(false);
  // The text field has its own state, because the URL updates too slowly for typing.
  const [text, setText] = useState(params.get("q") ?? "");
  const state = params.get("state");
  const column = (params.get("sort") ?? "noise") as Column;
  const descending = params.get("desc") === "1";
  const deferredText = useDeferredValue(text);

  const setParameters = (members: Record<string, string | null>) =>
    setParams(
      (old) => {
        for (const [name, value] of Object.entries(members)) {
          if (value) old.set(name, value);
          else old.delete(name);
        }
        return old;
      },
      { replace: true },
    );
  const sort = (by: Column) => setParameters({ sort: by, desc: by === column && !descending ? "1" : null });

  return (
    <>
      <PageHeader title="Rules" subtitle={rules.data && <RuleCounts rows={rules.data.items} />}>
        <ExportMenu path="/export" name="fraud-rules" lines="One line per rule" />
        {can("import") && (
          <Button
            variant="default"
            leftSection={<IconUpload size={14} aria-hidden />}
            onClick={() => setImporting(true)}
          >
            Import
          </Button>
        )}
        {can("draft") && (
          <Button component={Link} to="/rules/new" leftSection={<IconPlus size={14} aria-hidden />}>
            New rule
          </Button>
        )}
      </PageHeader>
      <Group mb="sm" gap="xs" align="center">
        <TextInput
          type="search"
          aria-label="Search by ID, name, owner or content"
          placeholder="Search"
          leftSection={<IconSearch size={14} aria-hidden />}
          value={text}
          onChange={(event) => {
            setText(event.currentTarget.value);
            setParameters({ q: event.currentTarget.value });
          }}
          style={{ flex: "1 1 14rem", maxWidth: "26rem" }}
        />
        <Select
          aria-label="State"
          placeholder="Any state"
          clearable
          clearButtonProps={{ "aria-label": "Any state" }}
          data={STATES.map((each) => ({ value: each, label: stateName(each) }))}
          value={state}
          onChange={(value) => setParameters({ state: value })}
          w="9rem"
        />
      </Group>
      <QueryResult query={rules}>
        {(data) => {
          const rows = sortRules(filterRules(data.items, deferredText, state), column, descending);
          if (data.items.length === 0) {
            return (
              <EmptyState>
                No rules yet.{" "}
                {can("draft") ? <Link to="/rules/new">Create the first rule.</Link> : "Analysts can create rules."}
              </EmptyState>
            );
          }
          if (rows.length === 0) return <EmptyState>No matching rules</EmptyState>;
          return (
            <RuleTable
              rows={rows}
              column={column}
              descending={descending}
              sort={sort}
              open={(id) => void navigate(`/rules/${id}`)}
            />
          );
        }}
      </QueryResult>
      <RejectedRecords />
      {importing && <ImportRulesDialog close={() => setImporting(false)} />}
    </>
  );
}

function RuleCounts({ rows }: { rows: readonly RuleRow[] }) {
  const countOf = (state: StateName) => rows.filter((row) => row.state === state).length;
  const live = rows.filter(
    (row) => row.activation?.status === "LIVE" && ["ACTIVE", "SIGNAL", "SHADOW"].includes(row.state),
  ).length;
  const outage = useOutage();
  const evaluated =
    outage === undefined
      ? `${formatNumber(live)} live in the detector`
      : `${formatNumber(live)} loaded, none evaluated${outage.since === null ? "" : ` since ${formatTime(outage.since, outage.at)}`}`;
  return (
    <>
      {formatNumber(rows.length)} rules:{" "}
      {STATES.map((state) => `${formatNumber(countOf(state))} ${stateName(state).toLowerCase()}`).join(", ")} ·{" "}
      {evaluated}
    </>
  );
}

interface TableProps {
  rows: readonly RuleRow[];
  column: Column;
  descending: boolean;
  sort: (column: Column) => void;
  open: (id: number) => void;
}

/** The table renders up to this many rows at once. Of a longer list it renders the visible rows only. */
const MAX_PLAIN_ROWS = 120;
const ROW_PX = 44;

function RuleTable({ rows, column, descending, sort, open }: TableProps) {
  const body = useRef<HTMLTableSectionElement>(null);
  const [top, setTop] = useState(0);
  const virtual = rows.length > MAX_PLAIN_ROWS;
  useLayoutEffect(() => {
    setTop(body.current ? body.current.getBoundingClientRect().top + window.scrollY : 0);
  }, []);
  const virtualizer = useWindowVirtualizer({
    count: rows.length,
    estimateSize: () => ROW_PX,
    overscan: 12,
    scrollMargin: top,
    enabled: virtual,
  });
  const items = virtualizer.getVirtualItems();
  const first = items[0];
  const last = items.at(-1);
  const visible = virtual
    ? items.map((item) => ({ row: rows[item.index], index: item.index }))
    : rows.map((row, index) => ({ row, index }));

  const moveFocus = (event: React.KeyboardEvent, index: number) => {
    const to = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (to === undefined || to < 0 || to >= rows.length) return;
    event.preventDefault();
    if (virtual) virtualizer.scrollToIndex(to);
    requestAnimationFrame(() => {
      body.current?.querySelector<HTMLElement>(`tr[data-index="${to}"] a`)?.focus();
    });
  };

  return (
    <Table className="rows two-lines" aria-rowcount={rows.length + 1} aria-label="Rules">
      <Table.Thead>
        <Table.Tr>
          <SortableHeader name="ruleId" {...{ column, descending, sort }}>
            Rule
          </SortableHeader>
          <SortableHeader name="state" {...{ column, descending, sort }}>
            State
          </SortableHeader>
          <SortableHeader name="alerts" from="sm" {...{ column, descending, sort }}>
            Alerts (last hour)
          </SortableHeader>
          <SortableHeader name="precision" from="md" {...{ column, descending, sort }}>
            Precision
          </SortableHeader>
          <SortableHeader name="noise" from="md" {...{ column, descending, sort }}>
            False alerts per day
          </SortableHeader>
          <SortableHeader name="severity" from="lg" {...{ column, descending, sort }}>
            Severity
          </SortableHeader>
          <SortableHeader name="owner" from="lg" {...{ column, descending, sort }}>
            Owner
          </SortableHeader>
          <SortableHeader name="revision" from="md" {...{ column, descending, sort }}>
            Revision
          </SortableHeader>
          <SortableHeader name="updatedAt" from="sm" {...{ column, descending, sort }}>
            Changed
          </SortableHeader>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody ref={body}>
        {virtual && first && <tr style={{ height: Math.max(0, first.start - top) }} aria-hidden />}
        {visible.map(
          ({ row, index }) =>
            row && (
              <RuleTableRow
                key={row.ruleId}
                row={row}
                index={index}
                measure={virtual ? virtualizer.measureElement : undefined}
                onKeyDown={moveFocus}
                open={open}
              />
            ),
        )}
        {virtual && last && (
          <tr style={{ height: Math.max(0, virtualizer.getTotalSize() + top - last.end) }} aria-hidden />
        )}
      </Table.Tbody>
    </Table>
  );
}

interface RowProps {
  row: RuleRow;
  index: number;
  measure: ((element: Element | null) => void) | undefined;
  onKeyDown: (event: React.KeyboardEvent, index: number) => void;
  open: (id: number) => void;
}

function RuleTableRow({ row, index, measure, onKeyDown, open }: RowProps) {
  return (
    <Table.Tr
      ref={measure}
      data-index={index}
      aria-rowindex={index + 2}
      onClick={(event) => {
        if (!(event.target instanceof Element && event.target.closest("a"))) open(row.ruleId);
      }}
      style={{ cursor: "pointer" }}
    >
      <Table.Td className="name">
        <Link
          to={`/rules/${row.ruleId}`}
          className="clamp"
          title={row.name ?? ""}
          onKeyDown={(event) => onKeyDown(event, index)}
          style={{ fontWeight: 600 }}
        >
          <span className="number">{row.ruleId}</span> {row.name || "(unnamed)"}
        </Link>
        <div className="dimmed small clamp">
          <RuleText rule={row.document} />
        </div>
        <Box hiddenFrom="sm" mt={4}>
          <Sparkline counts={row.alertsLastHour} label="alerts in the last hour" />
        </Box>
      </Table.Td>
      <Table.Td>
        <Group gap={4} wrap="nowrap">
          <StateChip state={row.state} />
          <ActivationChip activation={row.activation} state={row.state} />
          <WarmUpChip activation={row.activation} />
          {row.pendingApproval && (
            <Chip
              tone="warn"
              title={`Requested by ${row.pendingApproval.requestedBy}: ${requestText(row.pendingApproval)}`}
            >
              Awaiting approval
            </Chip>
          )}
        </Group>
      </Table.Td>
      <Table.Td visibleFrom="sm">
        <Sparkline counts={row.alertsLastHour} label="alerts in the last hour" />
      </Table.Td>
      <Table.Td visibleFrom="md">
        <Precision fraud={row.quality.fraud} notFraud={row.quality.notFraud} of={row.quality.payments} />
      </Table.Td>
      <Table.Td visibleFrom="md" className="number" title={NOISE}>
        {formatNumber(row.quality.falseAlertsPerDay)}
      </Table.Td>
      <Table.Td visibleFrom="lg">
        <SeverityChip severity={row.severity} />
      </Table.Td>
      <Table.Td visibleFrom="lg" className="clip" maw="10rem" title={row.owner ?? ""}>
        {row.owner}
      </Table.Td>
      <Table.Td
        visibleFrom="md"
        className="number"
        title={row.activation ? `Rule version ${row.activation.logVersion}` : "Not in the rule log"}
      >
        {row.revision}
      </Table.Td>
      <Table.Td visibleFrom="sm" style={{ whiteSpace: "nowrap" }}>
        <Timestamp ms={row.updatedAt} />
        <div style={{ color: "var(--mantine-color-dimmed)", fontSize: "0.75rem", maxWidth: "12rem" }} className="clip">
          {row.updatedBy}
        </div>
      </Table.Td>
    </Table.Tr>
  );
}

interface SortableProps {
  name: Column;
  column: Column;
  descending: boolean;
  sort: (column: Column) => void;
  from?: string;
  children: React.ReactNode;
}

function SortableHeader({ name, column, descending, sort, from, children }: SortableProps) {
  const isSorted = name === column;
  const direction = descending ? "descending" : "ascending";
  const Arrow = descending ? IconArrowDown : IconArrowUp;
  return (
    <Table.Th {...(from ? { visibleFrom: from } : {})} aria-sort={isSorted ? direction : "none"}>
      <UnstyledButton onClick={() => sort(name)}>
        {children}
        {isSorted && <Arrow size={12} aria-hidden />}
      </UnstyledButton>
    </Table.Th>
  );
}
