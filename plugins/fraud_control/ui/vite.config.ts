import react from "@vitejs/plugin-react";
import { loadEnv } from "vite";
import { defineConfig } from "vitest/config";

// The API server of a development Airflow, for `npx vite`.
const server = loadEnv("", ".", "FRAUD_")["FRAUD_AIRFLOW_URL"] ?? "http://127.0.0.1:8080";

export default defineConfig({
  // The server puts the path of the pages before these addresses, because Airflow may be below a path.
  base: "./",
  plugins: [react()],
  build: {
    outDir: "../static",
    emptyOutDir: true,
    target: "es2022",
    // The content security policy forbids inline scripts, and the preload helper for modules is one.
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 800,
    reportCompressedSize: false,
  },
  server: {
    proxy: { "/fraud/control/api": server, "/auth": server, "/fraud/runbooks": server },
  },
  test: {
    // Tests of components request jsdom themselves, because its start takes most of the time of a test file.
    environment: "node",
    isolate: false, // half of the CPU time went into the start of jsdom and of the same modules for each file
    setupFiles: ["src/testing/setup.ts"],
    include: ["src/**/*.test.{ts,tsx}"],
    css: false,
    restoreMocks: true,
    testTimeout: 60_000,
    expect: { poll: { timeout: 15_000 } },
  },
});
