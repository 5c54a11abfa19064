import js from "@eslint/js";
import reactHooks from "eslint-plugin-react-hooks";
import { defineConfig } from "eslint/config";
import tseslint from "typescript-eslint";

// Types are tsc's business: rules that need them take minutes here.
export default defineConfig(
  { ignores: ["src/api/openapi.d.ts", "node_modules"] },
  js.configs.recommended,
  tseslint.configs.strict,
  tseslint.configs.stylistic,
  reactHooks.configs.flat["recommended-latest"],
  {
    rules: {
      "no-undef": "off",
      // What somebody else wrote is shown as text; nothing may turn it into markup.
      "no-restricted-syntax": [
        "error",
        { selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']", message: "strings are shown as text" },
        { selector: "MemberExpression[property.name='innerHTML']", message: "strings are shown as text" },
      ],
    },
  },
);
