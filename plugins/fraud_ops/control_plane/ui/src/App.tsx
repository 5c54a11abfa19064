import { MantineProvider } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import { BrowserRouter, Navigate, Route, Routes } from "react-router";
import { AlertsPage } from "./alerts/AlertsPage";
import { Problem } from "./api/http";
import { airflowColorScheme } from "./colorScheme";
import { EmptyState } from "./components/EmptyState";
import { ErrorBoundary } from "./components/ErrorBoundary";
import { BASE_PATH } from "./parentAddress";
import { RulesPage } from "./rules/RulesPage";
import { Shell } from "./Shell";
import { theme, variables } from "./theme";
import { TodayPage } from "./today/TodayPage";

const RulePage = lazy(() => import("./rules/RulePage"));
const TemplatesPage = lazy(() => import("./rules/TemplatesPage"));
const ApprovalsPage = lazy(() => import("./rules/ApprovalsPage"));
const QualityPage = lazy(() => import("./alerts/QualityPage"));
const DecisionsPage = lazy(() => import("./decisions/DecisionsPage"));
const ListsPage = lazy(() => import("./lists/ListsPage"));
const ListPage = lazy(() => import("./lists/ListPage"));
const CasesPage = lazy(() => import("./cases/CasesPage"));
const CasePage = lazy(() => import("./cases/CasePage"));
const EntityPage = lazy(() => import("./entity/EntityPage"));
const NotificationsPage = lazy(() => import("./notify/NotificationsPage"));
const DetectorPage = lazy(() => import("./detector/DetectorPage"));
const DemoPage = lazy(() => import("./detector/DemoPage"));
const ApiPage = lazy(() => import("./apiDocs/ApiPage"));
const AuditPage = lazy(() => import("./admin/AuditPage"));
const AdminPage = lazy(() => import("./admin/AdminPage"));

const colorSchemes = airflowColorScheme();

const TOO_MANY_REQUESTS = 429;

/** Whether to send a failed read again. A 4xx answer is final, except 429. */
function shouldRetry(failures: number, error: Error): boolean {
  if (failures >= 2) return false;
  if (!(error instanceof Problem) || error.status === TOO_MANY_REQUESTS) return true;
  return error.status < 400 || error.status >= 500;
}

export function App() {
  const [client] = useState(
    () =>
      new QueryClient({
        defaultOptions: { queries: { retry: shouldRetry, staleTime: 5_000 }, mutations: { retry: false } },
      }),
  );
  return (
    <MantineProvider
      theme={theme}
      cssVariablesResolver={variables}
      defaultColorScheme="auto"
      colorSchemeManager={colorSchemes}
    >
      <QueryClientProvider client={client}>
        <BrowserRouter basename={BASE_PATH}>
          <ErrorBoundary>
            <Suspense>
              <PageRoutes />
            </Suspense>
          </ErrorBoundary>
        </BrowserRouter>
        <Notifications position="bottom-right" aria-live="polite" />
      </QueryClientProvider>
    </MantineProvider>
  );
}

function PageRoutes() {
  return (
    <Routes>
      <Route element={<Shell />}>
        <Route index element={<Navigate to="/today" replace />} />
        <Route path="today" element={<TodayPage />} />
        <Route path="rules" element={<RulesPage />} />
        <Route path="rules/new" element={<RulePage key="new" />} />
        <Route path="rules/templates" element={<TemplatesPage />} />
        <Route path="rules/:id" element={<RulePage />} />
        <Route path="lists" element={<ListsPage />} />
        <Route path="lists/:name" element={<ListPage />} />
        <Route path="approvals" element={<ApprovalsPage />} />
        <Route path="alerts" element={<AlertsPage />} />
        <Route path="cases" element={<CasesPage />} />
        <Route path="cases/:id" element={<CasePage />} />
        <Route path="entity" element={<EntityPage />} />
        <Route path="decisions" element={<DecisionsPage />} />
        <Route path="quality" element={<QualityPage />} />
        <Route path="notifications" element={<NotificationsPage />} />
        <Route path="detector" element={<DetectorPage />} />
        <Route path="audit" element={<AuditPage />} />
        <Route path="api-docs" element={<ApiPage />} />
        <Route path="admin" element={<AdminPage />} />
        <Route path="demo" element={<DemoPage />} />
        <Route path="*" element={<EmptyState>Page not found</EmptyState>} />
      </Route>
    </Routes>
  );
}
