import { MantineProvider } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import { type QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { lazy, Suspense } from "react";
import { BrowserRouter, Navigate, Route, Routes } from "react-router";
import { AlertsPage } from "./alerts/AlertsPage";
import { airflowColorScheme } from "./colorScheme";
import { ErrorBoundary } from "./components/ErrorBoundary";
import { NotFound } from "./components/NotFound";
import { MODULES } from "./firstPage";
import { LIST, MAP } from "./lists/types";
import { BASE_PATH } from "./basePath";
import { RulesPage } from "./rules/RulesPage";
import { Shell } from "./Shell";
import { theme, variables } from "./theme";
import { TodayPage } from "./today/TodayPage";

const RulePage = lazy(MODULES.rule);
const TemplatesPage = lazy(MODULES.templates);
const ApprovalsPage = lazy(MODULES.approvals);
const QualityPage = lazy(MODULES.quality);
const DecisionsPage = lazy(MODULES.decisions);
const ListsPage = lazy(MODULES.lists);
const ListPage = lazy(MODULES.list);
const CasesPage = lazy(MODULES.cases);
const CasePage = lazy(MODULES.case);
const EntityPage = lazy(MODULES.entity);
const NotificationsPage = lazy(MODULES.notifications);
const DataPage = lazy(MODULES.data);
const DetectorPage = lazy(MODULES.detector);
const DemoPage = lazy(MODULES.demo);
const ApiPage = lazy(MODULES.api);
const AuditPage = lazy(MODULES.audit);
const AdminPage = lazy(MODULES.admin);

const colorSchemes = airflowColorScheme();

export function App({ client }: { client: QueryClient }) {
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
        <Route path="lists" element={<ListsPage kind={LIST} />} />
        <Route path="lists/:name" element={<ListPage kind={LIST} />} />
        <Route path="maps" element={<ListsPage kind={MAP} />} />
        <Route path="maps/:name" element={<ListPage kind={MAP} />} />
        <Route path="approvals" element={<ApprovalsPage />} />
        <Route path="alerts" element={<AlertsPage />} />
        <Route path="cases" element={<CasesPage />} />
        <Route path="cases/:id" element={<CasePage />} />
        <Route path="entity" element={<EntityPage />} />
        <Route path="decisions" element={<DecisionsPage />} />
        <Route path="quality" element={<QualityPage />} />
        <Route path="notifications" element={<NotificationsPage />} />
        <Route path="data" element={<DataPage />} />
        <Route path="detector" element={<DetectorPage />} />
        <Route path="audit" element={<AuditPage />} />
        <Route path="api-docs" element={<ApiPage />} />
        <Route path="admin" element={<AdminPage />} />
        <Route path="demo" element={<DemoPage />} />
        <Route path="*" element={<NotFound />} />
      </Route>
    </Routes>
  );
}
