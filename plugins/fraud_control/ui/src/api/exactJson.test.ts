import { expect, test } from "vitest";
import { parseExactly, stringifyExactly, toText } from "./exactJson";

test("numbers that JavaScript would round keep their text", () => {
  const text = '{"id":9223372036854775807,"limit":12345678901234567890.123456789,"small":0.1,"n":20}';
  const value = parseExactly(text) as Record<string, unknown>;
  expect(stringifyExactly(value)).toBe(text);
  expect(toText(value["id"])).toBe("9223372036854775807");
  expect(value["n"]).toBe(20);
});

test("values as text for display", () => {
  expect(toText(null)).toBe("");
  expect(toText(["a", 1])).toBe("a, 1");
  expect(toText({ a: 1 })).toBe('{"a":1}');
});

test("a float is a number, whatever its number of digits", () => {
  expect(parseExactly("0.30000000000000004")).toBe(0.30000000000000004);
  expect(parseExactly("12.345678901234567")).toBe(12.345678901234567);
});
