import { TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { get } from "../api/http";
import { keys } from "../api/keys";
import { EmptyState } from "../components/EmptyState";
import { PageHeader, usePageTitle } from "../components/PageHeader";
import { QueryResult } from "../components/QueryResult";
import { BASE_PATH } from "../basePath";
import { type ApiDescription, type Operation, operationsOf } from "./apiDescription";
import { OperationDetails } from "./OperationDetails";
import { TokensPanel } from "./TokensPanel";

/** The HTTP API for programs: tokens, and the requests with their roles, parameters, bodies and answers. */
export default function ApiPage() {
  usePageTitle("API");
  const [text, setText] = useState("");
  const description = useQuery({
    queryKey: keys.apiDescription,
    queryFn: ({ signal }) => get<ApiDescription>("/openapi.json", signal),
    staleTime: Infinity,
  });
  return (
    <>
      <PageHeader title="API" subtitle="The HTTP API for programs. A program acts as the owner of its token.">
        <a href={`${BASE_PATH}/api/openapi.json`}>OpenAPI document</a>
      </PageHeader>
      <TokensPanel />
      <TextInput
        type="search"
        aria-label="Filter requests"
        placeholder="Path, role or text"
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        my="sm"
        maw="20rem"
      />
      <QueryResult query={description}>
        {(document) => <Operations document={document} text={text.trim().toLowerCase()} />}
      </QueryResult>
    </>
  );
}

function Operations({ document, text }: { document: ApiDescription; text: string }) {
  const found = operationsOf(document).filter((each) => matches(each, text));
  const tags = [...new Set(found.map(({ tag }) => tag))];
  if (found.length === 0) return <EmptyState>No matching requests</EmptyState>;
  return (
    <div style={{ display: "grid", gap: "1rem" }}>
      {tags.map((tag) => (
        <section key={tag} className="panel" aria-label={tag}>
          <h2>{tag}</h2>
          {found
            .filter((each) => each.tag === tag)
            .map((each) => (
              <OperationDetails
                key={`${each.method} ${each.path}`}
                operation={each}
                schemas={document.components.schemas}
              />
            ))}
        </section>
      ))}
    </div>
  );
}

function matches({ method, path, role, description }: Operation, text: string): boolean {
  return `${method} ${path} ${role} ${description}`.toLowerCase().includes(text);
}
