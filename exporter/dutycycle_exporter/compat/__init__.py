"""The same measurements under the names of other exporters, for dashboards and alert rules that know those."""
