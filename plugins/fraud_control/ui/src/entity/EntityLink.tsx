import type { ReactNode } from "react";
import { Link } from "react-router";
import { entityPath } from "./entityPath";

interface Props {
  field: string;
  value: string;
  children?: ReactNode;
}

/** A link to the page about a value of a field, by default with the value as its text. A masked value gets no link. */
export function EntityLink({ field, value, children = value }: Props) {
  const path = entityPath(field, value);
  return path === null ? <>{children}</> : <Link to={path}>{children}</Link>;
}
