import { Button, Tabs } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useNavigate, useParams, useSearchParams } from "react-router";
import { useApiMutation, useMe } from "../api/hooks";
import { API, get } from "../api/http";
import { keys } from "../api/keys";
import type { Me } from "../api/types";
import { PageHeader, usePageTitle } from "../components/PageHeader";
import { QueryResult } from "../components/QueryResult";
import { RuleUses } from "../components/RuleUses";
import { Timestamp } from "../components/Timestamp";
import { formatNumber } from "../format";
import { PendingApproval } from "../rules/PendingApproval";
import { ChangeDialog } from "./ChangeDialog";
import { HistoryPanel } from "./HistoryPanel";
import { ListStatus } from "./ListStatus";
import {
  capital,
  type CollectionKind,
  type CollectionRow,
  exampleOf,
  kindOf,
  pathOf,
  strongestState,
  typeOf,
} from "./types";
import { ValuesPanel } from "./ValuesPanel";

const REFRESH_MS = 10_000;

/** The page of one list or map: its content, its history, and the rules that use it. */
export default function ListPage({ kind }: { kind: CollectionKind }) {
  const { name = "" } = useParams();
  usePageTitle(`${capital(kind.name)} ${name}`);
  const me = useMe();
  const list = useQuery({
    queryKey: keys.collection(kind.plural, name),
    queryFn: ({ signal }) => get<CollectionRow>(pathOf(kind, name), signal),
    refetchInterval: REFRESH_MS,
  });
  return (
    <QueryResult query={me}>
      {(user) => <QueryResult query={list}>{(found) => <ListView list={found} me={user} />}</QueryResult>}
    </QueryResult>
  );
}

function ListView({ list, me }: { list: CollectionRow; me: Me }) {
  const [params, setParams] = useSearchParams();
  const [isChanging, setIsChanging] = useState(false);
  const kind = kindOf(list);
  const inForce = strongestState(list) !== "DRAFT";
  const canRead = me.can.includes("readIds"); // values can be ids of people
  const first = canRead ? "values" : "history";
  return (
    <>
      <PageHeader title={list.name} subtitle={<ListSummary list={list} />}>
        {canRead && (
          <Button component="a" variant="default" href={`${API}${pathOf(kind, list.name)}/export`}>
            Download
          </Button>
        )}
        {me.can.includes("draft") && (
          <Button disabled={list.pendingApproval !== null} onClick={() => setIsChanging(true)}>
            Change {kind.content}
          </Button>
        )}
        {me.can.includes("delete") && !inForce && <DeleteButton list={list} />}
      </PageHeader>
      {list.pendingApproval && <PendingApproval approval={list.pendingApproval} me={me} />}
      <UsedBy list={list} />
      <Tabs
        value={canRead ? (params.get("tab") ?? first) : first}
        onChange={(tab) => setParams(tab === first || tab === null ? {} : { tab }, { replace: true })}
        keepMounted={false}
      >
        <Tabs.List mb="md">
          {canRead && <Tabs.Tab value="values">{capital(kind.content)}</Tabs.Tab>}
          <Tabs.Tab value="history">History</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="values">
          <ValuesPanel list={list} me={me} />
        </Tabs.Panel>
        <Tabs.Panel value="history">
          <HistoryPanel list={list} canRead={canRead} />
        </Tabs.Panel>
      </Tabs>
      {isChanging && <ChangeDialog list={list} me={me} close={() => setIsChanging(false)} />}
    </>
  );
}

function ListSummary({ list }: { list: CollectionRow }) {
  return (
    <>
      <ListStatus list={list} /> {formatNumber(list.size)} {typeOf(list)} {kindOf(list).content}, changed by{" "}
      {list.updatedBy}, <Timestamp ms={list.updatedAt} />
      {list.nextExpiry !== null && (
        <>
          . {formatNumber(list.expiring)} expire, the first: <Timestamp ms={list.nextExpiry} />
        </>
      )}
    </>
  );
}

function UsedBy({ list }: { list: CollectionRow }) {
  return (
    <section className="panel" aria-label="Used by rules" style={{ marginBottom: "1rem" }}>
      <h2>Used by rules</h2>
      {list.rules.length === 0 ? (
        <p>
          No rules. Use the {kindOf(list).name} in the evaluation condition of a rule:{" "}
          <span className="code">{exampleOf(list)}</span>
        </p>
      ) : (
        <RuleUses rules={list.rules} />
      )}
    </section>
  );
}

function DeleteButton({ list }: { list: CollectionRow }) {
  const kind = kindOf(list);
  const navigate = useNavigate();
  const [isAsking, setIsAsking] = useState(false);
  const remove = useApiMutation<null, null>(
    () => ({
      path: `${pathOf(kind, list.name)}/changes`,
      method: "POST",
      body: { operation: "DELETE" },
      revision: list.revision,
    }),
    { successMessage: `${capital(kind.name)} ${list.name} deleted`, invalidates: [keys[kind.plural]] },
  );
  return (
    <Button
      variant="default"
      loading={remove.isPending}
      onClick={() =>
        isAsking ? remove.mutate(null, { onSuccess: () => void navigate(`/${kind.plural}`) }) : setIsAsking(true)
      }
    >
      {isAsking ? "Confirm deletion" : "Delete"}
    </Button>
  );
}
