// Tables: sortable, and one that draws only the rows in view.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export interface Column<T> {
  /** What the server, or the caller, sorts by. */
  key: string;
  title: string;
  cell: (row: T) => ComponentChildren;
  numeric?: boolean;
  sortable?: boolean;
}

export interface Sort {
  key: string;
  descending: boolean;
}

interface Common<T> {
  caption: string;
  columns: Column<T>[];
  sort?: Sort;
  onSort?: (sort: Sort) => void;
}

function Head<T>({ columns, sort, onSort }: Common<T>) {
  const next = (key: string): Sort => ({ key, descending: sort?.key === key ? !sort.descending : true });
  return (
    <thead>
      <tr>
        {columns.map((column) => {
          const sorted = sort?.key === column.key;
          const order = sorted ? (sort.descending ? "descending" : "ascending") : undefined;
          const arrow = sorted ? (sort.descending ? " ▾" : " ▴") : "";
          return (
            <th key={column.key} scope="col" class={column.numeric ? "number" : ""} {...(order && { "aria-sort": order })}>
              {column.sortable && onSort ? (
                <button type="button" class="sort" onClick={() => onSort(next(column.key))}>
                  {column.title}
                  <span aria-hidden="true">{arrow}</span>
                </button>
              ) : (
                column.title
              )}
            </th>
          );
        })}
      </tr>
    </thead>
  );
}

function Cells<T>({ row, columns }: { row: T; columns: Column<T>[] }) {
  return columns.map((column) => (
    <td key={column.key} class={column.numeric ? "number" : ""}>
      {column.cell(row)}
    </td>
  ));
}

interface TableProperties<T> extends Common<T> {
  rows: T[];
  id: (row: T) => string;
  empty?: string;
}

/** A table of few rows. */
export function Table<T>(properties: TableProperties<T>) {
  const { caption, columns, rows, id, empty = "nothing yet" } = properties;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={caption}>
      <table>
        <caption class="hidden">{caption}</caption>
        <Head {...properties} />
        <tbody>
          {rows.map((row) => (
            <tr key={id(row)}>
              <Cells row={row} columns={columns} />
            </tr>
          ))}
          {rows.length === 0 && (
            <tr>
              <td class="muted" colSpan={columns.length}>
                {empty}
              </td>
            </tr>
          )}
        </tbody>
      </table>
    </div>
  );
}

const ROW = 30;
/** Rows beyond the visible ones, on both sides. */
const MARGIN = 12;

interface VirtualProperties<T> extends Common<T> {
  /** All rows, those included that were not asked for yet. */
  total: number;
  row: (at: number) => T | undefined;
  id: (row: T) => string;
  /** Called with the rows that are in view, so that they can be asked for. */
  onView: (first: number, last: number) => void;
  height: number;
}

/** A table of any number of rows, of which those in view exist in the page. */
export function VirtualTable<T>(properties: VirtualProperties<T>) {
  const { caption, columns, total, row, id, onView, height } = properties;
  const place = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const first = Math.max(0, Math.floor(top / ROW) - MARGIN);
  const last = Math.min(total, Math.ceil((top + height) / ROW) + MARGIN);

  useEffect(() => onView(first, last), [first, last, total]);
  useEffect(() => {
    // Fewer rows than before: the place that was looked at is gone.
    const element = place.current;
    if (element && element.scrollTop > total * ROW) element.scrollTop = 0;
  }, [total]);

  const rows: ComponentChildren[] = [];
  for (let at = first; at < last; at += 1) {
    const value = row(at);
    rows.push(
      <tr key={value ? id(value) : `row ${at}`} aria-rowindex={at + 2} class="fixed">
        {value ? <Cells row={value} columns={columns} /> : <td colSpan={columns.length} class="muted" />}
      </tr>,
    );
  }
  return (
    <div
      ref={place}
      class="scroll"
      style={{ height: `${height}px` }}
      tabIndex={0}
      role="region"
      aria-label={caption}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
    >
      <table aria-rowcount={total + 1}>
        <caption class="hidden">{caption}</caption>
        <Head {...properties} />
        <tbody>
          <tr aria-hidden="true">
            <td colSpan={columns.length} class="spacer" style={{ height: `${first * ROW}px` }} />
          </tr>
          {rows}
          <tr aria-hidden="true">
            <td colSpan={columns.length} class="spacer" style={{ height: `${(total - last) * ROW}px` }} />
          </tr>
        </tbody>
      </table>
    </div>
  );
}
