import "@mantine/core/styles.css";
import "@mantine/charts/styles.css";
import "@mantine/notifications/styles.css";
import "./pages.css";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./App";
import { newQueryClient } from "./api/queryClient";
import { startFirstPage } from "./firstPage";
import { openParentAddress } from "./parentAddress";

openParentAddress();
const client = newQueryClient();
startFirstPage(client, window.location);

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <App client={client} />
    </StrictMode>,
  );
}
