"""What dashboards are built from: panels, variables, links, layout, and the PromQL that they share."""
