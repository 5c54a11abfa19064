/** The names of the time zones that the browser knows, UTC first. */
export const TIME_ZONES = ["UTC", ...Intl.supportedValuesOf("timeZone").filter((zone) => zone !== "UTC")];

/** The periods that a window can have instead of a length. */
export const CALENDARS = ["DAY", "WEEK", "MONTH"];
