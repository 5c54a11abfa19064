import { notifications } from "@mantine/notifications";
import { Problem } from "./api/http";

/** Shows a notification about a success. */
export function notifySuccess(message: string): void {
  notifications.show({ message, autoClose: 4_000, color: "teal" });
}

/** Shows a notification about an error, with its reasons. */
export function notifyError(error: unknown): void {
  const reasons = error instanceof Problem ? error.reasons.map((each) => `${each.field}: ${each.message}`) : [];
  const message = [error instanceof Error ? error.message : String(error), ...reasons].join("\n");
  notifications.show({ title: "Request failed", message, color: "red", autoClose: 10_000 });
}
