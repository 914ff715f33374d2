// What a dashboard may hold: Grafana's own types of the dashboard, of each panel's options and custom field settings. Where
// Grafana's type says "anything" and the panel's or the query's own type says what, the latter stands here.
import type * as model from "@grafana/schema/dist/types/raw/dashboard/x/types.gen";
import type { DataQuery } from "@grafana/schema";
import type * as barchart from "@grafana/schema/dist/types/raw/composable/barchart/panelcfg/x/types.gen";
import type * as bargauge from "@grafana/schema/dist/types/raw/composable/bargauge/panelcfg/x/types.gen";
import type * as gauge from "@grafana/schema/dist/types/raw/composable/gauge/panelcfg/x/types.gen";
import type * as heatmap from "@grafana/schema/dist/types/raw/composable/heatmap/panelcfg/x/types.gen";
import type * as histogram from "@grafana/schema/dist/types/raw/composable/histogram/panelcfg/x/types.gen";
import type * as piechart from "@grafana/schema/dist/types/raw/composable/piechart/panelcfg/x/types.gen";
import type * as stat from "@grafana/schema/dist/types/raw/composable/stat/panelcfg/x/types.gen";
import type * as statetimeline from "@grafana/schema/dist/types/raw/composable/statetimeline/panelcfg/x/types.gen";
import type * as statushistory from "@grafana/schema/dist/types/raw/composable/statushistory/panelcfg/x/types.gen";
import type * as table from "@grafana/schema/dist/types/raw/composable/table/panelcfg/x/types.gen";
import type * as text from "@grafana/schema/dist/types/raw/composable/text/panelcfg/x/types.gen";
import type * as timeseries from "@grafana/schema/dist/types/raw/composable/timeseries/panelcfg/x/types.gen";

// @grafana/schema has no type of Prometheus queries: what the query editor of Grafana's data source writes.
export interface PrometheusQuery extends Omit<DataQuery, "datasource"> {
  datasource?: model.DataSourceRef;
  editorMode?: "builder" | "code";
  exemplar?: boolean;
  expr: string;
  format?: "heatmap" | "table" | "time_series";
  instant?: boolean;
  interval?: string;
  intervalFactor?: number;
  legendFormat?: string;
  range?: boolean;
}

// Likewise of the links of a field.
export interface DataLink {
  targetBlank?: boolean;
  title: string;
  url: string;
}

interface FieldConfig<Custom> extends Omit<model.FieldConfig, "custom" | "links"> {
  custom?: Partial<Custom>;
  links?: DataLink[];
}

interface FieldConfigSource<Custom> extends Omit<model.FieldConfigSource, "defaults"> {
  defaults: FieldConfig<Custom>;
}

// Options that are not written have their defaults.
interface PanelOf<Type extends string, Options, Custom> extends Omit<model.Panel, "type" | "options" | "fieldConfig" | "targets"> {
  fieldConfig?: FieldConfigSource<Custom>;
  options?: Partial<Options>;
  targets?: PrometheusQuery[];
  type: Type;
}

interface None {}

export type Panel_barchart = PanelOf<"barchart", barchart.Options, barchart.FieldConfig>;
export type Panel_bargauge = PanelOf<"bargauge", bargauge.Options, None>;
export type Panel_gauge = PanelOf<"gauge", gauge.Options, None>;
export type Panel_heatmap = PanelOf<"heatmap", heatmap.Options, heatmap.FieldConfig>;
export type Panel_histogram = PanelOf<"histogram", histogram.Options, histogram.FieldConfig>;
export type Panel_piechart = PanelOf<"piechart", piechart.Options, piechart.FieldConfig>;
export type Panel_row = model.RowPanel;
export type Panel_stat = PanelOf<"stat", stat.Options, None>;
export type Panel_state_timeline = PanelOf<"state-timeline", statetimeline.Options, statetimeline.FieldConfig>;
export type Panel_status_history = PanelOf<"status-history", statushistory.Options, statushistory.FieldConfig>;
export type Panel_table = PanelOf<"table", table.Options, table.FieldConfig>;
export type Panel_text = PanelOf<"text", text.Options, None>;
export type Panel_timeseries = PanelOf<"timeseries", timeseries.Options, timeseries.FieldConfig>;

// Marks of Prometheus's data source have their texts beside the query.
export interface Annotation extends Omit<model.AnnotationQuery, "target"> {
  tagKeys?: string;
  target?: model.AnnotationTarget | PrometheusQuery;
  textFormat?: string;
  titleFormat?: string;
  useValueForTime?: string;
}

// Without its panels, each of which is checked by itself: an error then says what is wrong, instead of that nothing fits.
export interface Frame extends Omit<model.Dashboard, "annotations" | "panels"> {
  annotations?: { list?: Annotation[] };
  panels?: Array<{ [key: string]: unknown }>;
}
