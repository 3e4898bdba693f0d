"""The budget of a new run: the request's, completed from the settings."""

from __future__ import annotations

from stepwell.config import BudgetSettings
from stepwell.core.records.model import Budget
from stepwell.rpc.dependencies import Dependencies

_NO_SETTINGS = BudgetSettings()


def with_default(deps: Dependencies, tenant_id: str, budget: Budget) -> Budget:
    """Return the budget, completed with the tenant's limits.

    Each part is the request's, or else the tenant's if the settings name it, or else the default. A
    0 in the tenant's table means no limit, whatever the default.
    """
    settings = deps.settings.budgets
    tenant = settings.tenants.get(tenant_id, _NO_SETTINGS)
    limits: dict[str, int] = {}
    for name in budget.__struct_fields__:
        named = name in tenant.model_fields_set
        default = getattr(tenant if named else settings.default, name)
        limits[name] = getattr(budget, name) or default
    return Budget(**limits)
