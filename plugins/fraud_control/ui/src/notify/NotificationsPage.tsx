import { PageHeader, usePageTitle } from "../components/PageHeader";
import { DeliveryList } from "./DeliveryList";
import { ReceiverList } from "./ReceiverList";
import { SubscriptionList } from "./SubscriptionList";

/** The receivers of notifications, the subscriptions to them, and the deliveries with their failures. */
export default function NotificationsPage() {
  usePageTitle("Notifications");
  return (
    <>
      <PageHeader title="Notifications" subtitle="Messages about alerts, requests for approval, and each day" />
      <div style={{ display: "grid", gap: "1rem" }}>
        <SubscriptionList />
        <ReceiverList />
        <DeliveryList />
      </div>
    </>
  );
}
