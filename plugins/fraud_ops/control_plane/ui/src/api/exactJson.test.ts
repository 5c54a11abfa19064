import { expect, test } from "vitest";
import { parseExactly, shown, stringifyExactly } from "./exactJson";

test("numbers that JavaScript would round come back as they came", () => {
  const text = '{"id":9223372036854775807,"limit":12345678901234567890.123456789,"small":0.1,"n":20}';
  const value = parseExactly(text) as Record<string, unknown>;
  expect(stringifyExactly(value)).toBe(text);
  expect(shown(value["id"])).toBe("9223372036854775807");
  expect(value["n"]).toBe(20);
});

test("values are text for people", () => {
  expect(shown(null)).toBe("");
  expect(shown(["a", 1])).toBe("a, 1");
  expect(shown({ a: 1 })).toBe('{"a":1}');
});

test("a float is a number, however many digits it is printed with", () => {
  expect(parseExactly("0.30000000000000004")).toBe(0.30000000000000004);
  expect(parseExactly("12.345678901234567")).toBe(12.345678901234567);
});
