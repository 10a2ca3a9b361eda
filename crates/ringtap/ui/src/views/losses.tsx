// Where packets were lost, and what the capture costs.
import type { CostAnswer, LossesAnswer, Status } from "../api";
import * as format from "../format";
import { useAnswer } from "../live";
import { Alerts, Card, Problem, Tile } from "../parts/pieces";
import { Table } from "../parts/table";

export function Losses({ status }: { status: Status }) {
  const losses = useAnswer<LossesAnswer>("losses", {}, 2000);
  const cost = useAnswer<CostAnswer>("cost", {}, 2000);
  return (
    <>
      <Card title="Losses by layer">
        <Problem error={losses.error} />
        <Table
          caption="losses by layer, in the order of a packet's way"
          columns={[
            { key: "layer", title: "layer", cell: (layer) => layer.layer },
            { key: "packets", title: "packets", numeric: true, cell: (layer) => (layer.packets === null ? "unknown" : format.exact(layer.packets)) },
            { key: "per_s", title: "per second", numeric: true, cell: (layer) => format.count(layer.per_s) },
            { key: "explanation", title: "what it counts", cell: (layer) => layer.explanation },
            { key: "advice", title: "what helps", cell: (layer) => (layer.packets ? (layer.advice ?? "") : "") },
          ]}
          rows={losses.value?.layers ?? []}
          id={(layer) => layer.layer}
        />
      </Card>
      <Card title="Cost of the capture">
        <Problem error={cost.error} />
        <dl class="tiles">
          <Tile title="processor" value={cost.value?.cpu_percent == null ? "–" : `${cost.value.cpu_percent.toFixed(1)} %`} />
          <Tile title="memory" value={format.bytes(cost.value?.memory_bytes)} />
          <Tile title="for each packet" value={format.nanos(cost.value?.ns_per_packet)} />
          {cost.value?.kernel_ns_per_packet != null && <Tile title="for each packet, in the kernel" value={format.nanos(cost.value.kernel_ns_per_packet)} />}
        </dl>
        {cost.value && cost.value.components.length > 0 && (
          <Table
            caption="cost of a packet by component"
            columns={[
              { key: "name", title: "component", cell: (part) => part.name },
              { key: "ns", title: "time", numeric: true, cell: (part) => format.nanos(part.ns) },
            ]}
            rows={cost.value.components}
            id={(part) => part.name}
          />
        )}
      </Card>
      <Card title="Alerts">
        <Alerts alerts={status.alerts} />
      </Card>
    </>
  );
}
