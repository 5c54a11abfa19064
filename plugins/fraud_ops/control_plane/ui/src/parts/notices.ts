import { notifications } from "@mantine/notifications";
import { Problem } from "../api/http";

/** Say that something was done. */
export function done(message: string): void {
  notifications.show({ message, autoClose: 4_000, color: "teal" });
}

/** Say that something went wrong. */
export function failed(error: unknown): void {
  const reasons = error instanceof Problem ? error.reasons.map((each) => `${each.field}: ${each.message}`) : [];
  const message = [error instanceof Error ? error.message : String(error), ...reasons].join("\n");
  notifications.show({ title: "Request failed", message, color: "red", autoClose: 10_000 });
}
