"""Routes of notifications: receivers, subscriptions and deliveries."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Response

from fraud_control.domain import notification_models as models
from fraud_control.domain.notification_models import DeliveryState
from fraud_control.web.answer import answer, nothing
from fraud_control.web.auth import CurrentActor
from fraud_control.web.dependencies import CurrentPlane
from fraud_control.web.routing import least, router
from fraud_control.web.schemas import notifications as schemas
from fraud_control.web.schemas.base import MAX_ID

routes = router("notifications")

Id = Annotated[int, Path(ge=1, le=MAX_ID)]
ReceiverName = Annotated[str, Path(min_length=1, max_length=32)]


@routes.get("/receivers", response_model=schemas.Receivers, openapi_extra=least("viewer"))
def list_receivers(plane: CurrentPlane) -> Response:
    """List the receivers of notifications, without their addresses and secrets."""
    return answer(schemas.Receivers(items=plane.receivers()))


@routes.post("/receivers/{name}/test", response_model=models.Delivery, status_code=202, openapi_extra=least("analyst"))
def test_receiver(plane: CurrentPlane, actor: CurrentActor, name: ReceiverName) -> Response:
    """Send a test notification to a receiver. The list of deliveries shows its result."""
    return answer(plane.subscriptions.test(actor, name), 202)


@routes.get("/subscriptions", response_model=schemas.Subscriptions, openapi_extra=least("viewer"))
def list_subscriptions(plane: CurrentPlane) -> Response:
    """List all subscriptions to notifications."""
    return answer(schemas.Subscriptions(items=plane.subscriptions.all()))


@routes.post("/subscriptions", response_model=models.Subscription, status_code=201, openapi_extra=least("analyst"))
def create_subscription(plane: CurrentPlane, actor: CurrentActor, body: schemas.SubscriptionRequest) -> Response:
    """Subscribe a receiver to notifications. They are about events after the creation."""
    return answer(plane.subscriptions.create(actor, body.terms()), 201)


@routes.put("/subscriptions/{subscription_id}", response_model=models.Subscription, openapi_extra=least("analyst"))
def edit_subscription(
    plane: CurrentPlane, actor: CurrentActor, subscription_id: Id, body: schemas.SubscriptionRequest
) -> Response:
    """Replace the terms of a subscription. Only its author and admins may do this."""
    return answer(plane.subscriptions.edit(actor, subscription_id, body.terms()))


@routes.delete("/subscriptions/{subscription_id}", status_code=204, openapi_extra=least("analyst"))
def remove_subscription(plane: CurrentPlane, actor: CurrentActor, subscription_id: Id) -> Response:
    """Remove a subscription with its waiting deliveries. Only its author and admins may do this."""
    plane.subscriptions.remove(actor, subscription_id)
    return nothing()


@routes.get("/deliveries", response_model=schemas.Deliveries, openapi_extra=least("viewer"))
def list_deliveries(
    plane: CurrentPlane,
    state: Annotated[list[DeliveryState] | None, Query()] = None,
    before: Annotated[int | None, Query(ge=1, le=MAX_ID)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> Response:
    """List the deliveries, newest first: all, or those in one of the states."""
    page = plane.subscriptions.deliveries(states=frozenset(state or ()), limit=limit, before=before)
    return answer(schemas.Deliveries(items=list(page.items), next=page.next))


@routes.post("/deliveries/retry", response_model=schemas.Retried, openapi_extra=least("analyst"))
def retry_failed_deliveries(plane: CurrentPlane, actor: CurrentActor) -> Response:
    """Send the failed deliveries again, now."""
    return answer(schemas.Retried(count=plane.subscriptions.retry_failed(actor)))


@routes.post("/deliveries/{delivery_id}/retry", response_model=models.Delivery, openapi_extra=least("analyst"))
def retry_delivery(plane: CurrentPlane, actor: CurrentActor, delivery_id: Id) -> Response:
    """Send a failed or waiting delivery now."""
    return answer(plane.subscriptions.retry(actor, delivery_id))
