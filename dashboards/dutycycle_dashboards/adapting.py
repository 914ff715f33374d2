"""A site's own values in the dashboards: the address of the alerter's page, and the data source."""

from __future__ import annotations

import copy
from typing import Any

Model = dict[str, Any]


def adapted(model: Model, *, alerter_url: str | None = None, datasource: str | None = None) -> Model:
    """The same dashboard with other initial values of its variables."""
    made = copy.deepcopy(model)
    for variable in made["templating"]["list"]:
        if variable["name"] == "alerter" and alerter_url is not None:
            chosen = {"text": alerter_url, "value": alerter_url}
            variable |= {"query": alerter_url, "current": chosen, "options": [{"selected": True, **chosen}]}
        if variable["name"] == "datasource" and datasource is not None:
            variable["current"] = {"text": datasource, "value": datasource}
    return made
