// Who talks to whom, as a matrix.
import type { MatrixAnswer } from "../api";
import * as format from "../format";
import { useAnswer } from "../live";
import { Card, HostLink, Problem } from "../parts/pieces";
import { Top } from "./overview";

/** Five shades, by the logarithm of the bytes. */
function shade(value: number, most: number): number {
  if (value <= 0 || most <= 0) return 0;
  return Math.max(1, Math.ceil((5 * Math.log1p(value)) / Math.log1p(most)));
}

export function Conversations() {
  const { value, error } = useAnswer<MatrixAnswer>("matrix", { limit: 16 }, 3000);
  const most = Math.max(0, ...(value?.bytes.flat() ?? []));
  return (
    <>
      <Card title="Conversations">
        <Problem error={error} />
        {value && value.hosts.length > 0 ? (
          <div class="scroll" tabIndex={0} role="region" aria-label="conversations">
            <table class="matrix">
              <caption>bytes from the host of the row to that of the column</caption>
              <thead>
                <tr>
                  <td />
                  {value.hosts.map((host, at) => (
                    <th key={host} scope="col">
                      <HostLink address={host} name={value.names[at] ?? null} />
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {value.hosts.map((host, from) => (
                  <tr key={host}>
                    <th scope="row">
                      <HostLink address={host} name={value.names[from] ?? null} />
                    </th>
                    {value.hosts.map((other, to) => {
                      const bytes = value.bytes[from]?.[to] ?? 0;
                      return (
                        <td key={other} class={`shade-${shade(bytes, most)}`} title={`${host} to ${other}: ${format.bytes(bytes)}`}>
                          {bytes > 0 ? format.bytes(bytes) : ""}
                        </td>
                      );
                    })}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        ) : (
          <p class="muted">nothing yet</p>
        )}
      </Card>
      <div class="columns">
        <Top of="pairs" title="Pairs" limit={20} />
        <Top of="ports" title="Ports" limit={20} />
        <Top of="protocols" title="Protocols" limit={20} />
        <Top of="as" title="Autonomous systems" limit={20} optional />
        <Top of="countries" title="Countries" limit={20} optional />
        <Top of="vlans" title="VLANs" limit={20} optional />
      </div>
    </>
  );
}
