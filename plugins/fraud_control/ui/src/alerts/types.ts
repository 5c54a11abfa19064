import type { Alert as ApiAlert } from "../api/types";

export type { CorrectionEvent } from "../api/types";

/** An alert with the members of its schema, without additional ones. */
export type Alert = { [Name in keyof ApiAlert as string extends Name ? never : Name]: ApiAlert[Name] };

export type Mark = NonNullable<ApiAlert["mark"]>;
