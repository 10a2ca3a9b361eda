// Traffic over time: stacked areas, or lines, drawn by uPlot.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import * as format from "../format";
import "uplot/dist/uPlot.min.css";

export interface Line {
  name: string;
  /** A value for each step; null where nothing is known. */
  values: (number | null)[];
  /** A dashed line on top instead of an area of the stack. */
  reference?: boolean;
}

interface Properties {
  label: string;
  from_ms: number;
  step_ms: number;
  lines: Line[];
  format: (value: number) => string;
  height?: number;
  /** Called with the range that was selected by dragging. */
  onRange?: (from_ms: number, to_ms: number) => void;
}

/** Nine colours that differ in lightness as well as in hue. */
export const COLORS = ["#3b82c4", "#e08a3c", "#4ba26b", "#c2517a", "#8a6fd1", "#b3a23a", "#3fa9a5", "#a0685a", "#7c8794"];

/** Adds each area to those below it. */
function stack(lines: Line[]): (number | null)[][] {
  const sums: number[] = [];
  return lines.map((line) => {
    if (line.reference) return line.values;
    return line.values.map((value, at) => {
      sums[at] = (sums[at] ?? 0) + (value ?? 0);
      return value === null && lines.length === 1 ? null : sums[at];
    });
  });
}

/** The time of a tick: with the day where the ticks are of several days. */
function shownTime(ms: number, ticks: number[]): string {
  const spans = (ticks.at(-1) ?? 0) - (ticks[0] ?? 0);
  return spans > 86_400 ? format.dateTime(ms).slice(5, 16) : format.time(ms);
}

function options(properties: Properties, width: number, shown: { current: Properties }): uPlot.Options {
  const { lines, height = 240 } = properties;
  const style = getComputedStyle(document.documentElement);
  const text = style.getPropertyValue("--muted").trim();
  const grid = { stroke: style.getPropertyValue("--line").trim(), width: 1 };
  const axis = { stroke: text, grid, ticks: grid };
  const series = lines.map((line, at): uPlot.Series => {
    const stroke = line.reference ? text : (COLORS[at % COLORS.length] ?? "#888");
    const value = (_: uPlot, __: number | null, ___: number, index: number | null) => {
      const raw = index === null ? null : shown.current.lines[at]?.values[index];
      return raw == null ? "–" : shown.current.format(raw);
    };
    const common = { label: line.name, stroke, width: 1.5, points: { show: false }, value };
    return line.reference ? { ...common, dash: [6, 4] } : { ...common, fill: `${stroke}66` };
  });
  const areas = lines.map((line, at) => (line.reference ? -1 : at + 1)).filter((at) => at > 0);
  const bands = areas.slice(1).map((upper, at): uPlot.Band => ({ series: [upper, areas[at] ?? 1], fill: `${COLORS[(upper - 1) % COLORS.length]}66` }));
  return {
    width,
    height,
    series: [{ label: "time", value: (_, seconds) => (seconds == null ? "–" : format.time(seconds * 1000)) }, ...series],
    bands,
    axes: [{ ...axis, space: 90, values: (_, ticks) => ticks.map((tick) => shownTime(tick * 1000, ticks)) }, { ...axis, size: 84, values: (_, ticks) => ticks.map((tick) => shown.current.format(tick)) }],
    scales: { y: { range: (_, __, max) => [0, max > 0 ? max * 1.05 : 1] } },
    cursor: { drag: { x: true, y: false, setScale: false } },
    legend: { live: true },
    hooks: {
      setSelect: [
        (plot) => {
          const { left, width: selected } = plot.select;
          if (selected < 8) return;
          const from = plot.posToVal(left, "x") * 1000;
          const to = plot.posToVal(left + selected, "x") * 1000;
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          shown.current.onRange?.(Math.round(from), Math.round(to));
        },
      ],
    },
  };
}

export function Chart(properties: Properties) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const shown = useRef(properties);
  shown.current = properties;
  const { from_ms, step_ms, lines } = properties;
  // The plot is made anew when other lines are shown, and only given other values otherwise.
  const shape = lines.map((line) => `${line.name}/${line.reference ?? false}`).join("\n");
  const length = lines[0]?.values.length ?? 0;
  const times = Array.from({ length }, (_, at) => (from_ms + at * step_ms) / 1000);
  const data = [times, ...stack(lines)] as uPlot.AlignedData;

  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const build = () => {
      plot.current?.destroy();
      plot.current = new uPlot(options(shown.current, element.clientWidth, shown), data, element);
    };
    build();
    const sizes = new ResizeObserver(() => {
      plot.current?.setSize({ width: element.clientWidth, height: shown.current.height ?? 240 });
    });
    sizes.observe(element);
    addEventListener("ringtap-theme", build);
    return () => {
      sizes.disconnect();
      removeEventListener("ringtap-theme", build);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape]);

  useEffect(() => {
    plot.current?.setData(data);
  });

  return (
    <figure class="chart" aria-label={properties.label}>
      <div ref={place} aria-hidden="true" />
      <Summary {...properties} />
    </figure>
  );
}

/** The figures for those who can't see the drawing. */
function Summary({ label, lines, format, step_ms }: Properties) {
  return (
    <table class="hidden">
      <caption>
        {label}, values for each {step_ms / 1000} s
      </caption>
      <thead>
        <tr>
          <th scope="col">series</th>
          <th scope="col">last</th>
          <th scope="col">most</th>
        </tr>
      </thead>
      <tbody>
        {lines.map((line) => {
          const known = line.values.filter((value) => value !== null);
          const last = known.at(-1);
          return (
            <tr key={line.name}>
              <th scope="row">{line.name}</th>
              <td>{last === undefined ? "unknown" : format(last)}</td>
              <td>{known.length ? format(Math.max(...known)) : "unknown"}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
