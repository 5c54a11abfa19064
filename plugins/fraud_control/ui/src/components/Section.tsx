import type { ReactNode } from "react";
import { EmptyState } from "./EmptyState";

/** A wide panel with a title. Its content is `empty`, a sentence, if there is nothing to show. */
export function Section({ title, empty, children }: { title: string; empty: string | null; children: ReactNode }) {
  return (
    <section className="panel wide" aria-label={title}>
      <h2>{title}</h2>
      {empty === null ? children : <EmptyState>{empty}</EmptyState>}
    </section>
  );
}
