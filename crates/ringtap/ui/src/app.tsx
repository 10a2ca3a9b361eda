// The frame of the page: which view is shown, the connection, the theme, the keys.
import { useEffect, useRef, useState } from "preact/hooks";
import { type Status, setToken } from "./api";
import { type Connection, useStatus } from "./live";
import { Conversations } from "./views/conversations";
import { FlowDetail, Flows } from "./views/flows";
import { Host, Hosts } from "./views/hosts";
import { Losses } from "./views/losses";
import { Overview } from "./views/overview";

const VIEWS: [string, string][] = [
  ["overview", "Overview"],
  ["hosts", "Hosts"],
  ["flows", "Flows"],
  ["conversations", "Conversations"],
  ["losses", "Losses and cost"],
];

const KEYS: [string, string][] = [
  ["1 – 5", "choose a view"],
  ["/", "go to the search or filter field"],
  ["t", "dark or light"],
  ["?", "this list"],
];

/** The view and what it shows, by the address's part behind `#/`. */
function useRoute(): string[] {
  const parse = () => location.hash.replace(/^#\/?/, "").split("/").map(decode);
  const [route, setRoute] = useState(parse);
  useEffect(() => {
    const changed = () => setRoute(parse());
    addEventListener("hashchange", changed);
    // The address may have changed since the first drawing.
    changed();
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function useTheme(): [string, () => void] {
  const preferred = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const [theme, setTheme] = useState(localStorage.getItem("ringtap-theme") ?? preferred);
  useEffect(() => {
    document.documentElement.dataset["theme"] = theme;
    dispatchEvent(new Event("ringtap-theme"));
  }, [theme]);
  const toggle = () => {
    const other = theme === "dark" ? "light" : "dark";
    localStorage.setItem("ringtap-theme", other);
    setTheme(other);
  };
  return [theme, toggle];
}

export function App() {
  const { status, connection, refused, retry } = useStatus();
  const [view = "", detail] = useRoute();
  const shown = VIEWS.some(([name]) => name === view) ? view : "overview";
  const [theme, toggleTheme] = useTheme();
  const help = useRef<HTMLDialogElement>(null);

  useEffect(() => {
    const title = VIEWS.find(([name]) => name === shown)?.[1] ?? "";
    document.title = `${detail ?? title} – ringtap`;
  }, [shown, detail]);

  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
      const chosen = VIEWS[Number(event.key) - 1];
      if (chosen) location.hash = `#/${chosen[0]}`;
      else if (event.key === "/") document.querySelector<HTMLInputElement>("[data-search]")?.focus();
      else if (event.key === "t") toggleTheme();
      else if (event.key === "?") help.current?.showModal();
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [theme]);

  return (
    <>
      <a class="skip" href="#content" onClick={(event) => { event.preventDefault(); document.getElementById("content")?.focus(); }}>
        Skip to the content
      </a>
      <header class="page">
        <h1>ringtap</h1>
        <nav aria-label="views">
          {VIEWS.map(([name, title]) => (
            <a key={name} href={`#/${name}`} {...(name === shown && { "aria-current": "page" as const })}>
              {title}
            </a>
          ))}
        </nav>
        <Source status={status} connection={connection} />
        <button type="button" onClick={toggleTheme} aria-label={`Use the ${theme === "dark" ? "light" : "dark"} theme`}>
          {theme === "dark" ? "☀" : "☾"}
        </button>
        <button type="button" onClick={() => help.current?.showModal()} aria-label="Keys">
          ?
        </button>
      </header>
      <main id="content" tabIndex={-1}>
        {refused ? <Token retry={retry} /> : status ? <View view={shown} detail={detail} status={status} /> : <p class="muted">connecting</p>}
      </main>
      <dialog ref={help} aria-label="Keys">
        <h2>Keys</h2>
        <dl class="fields">
          {KEYS.map(([key, meaning]) => (
            <div key={key}>
              <dt>{key}</dt>
              <dd>{meaning}</dd>
            </div>
          ))}
        </dl>
        <form method="dialog">
          <button type="submit">Close</button>
        </form>
      </dialog>
    </>
  );
}

function View({ view, detail, status }: { view: string; detail: string | undefined; status: Status }) {
  switch (view) {
    case "hosts":
      return detail ? <Host key={detail} address={detail} status={status} /> : <Hosts />;
    case "flows":
      return detail ? <FlowDetail key={detail} id={detail} status={status} /> : <Flows initial="" />;
    case "conversations":
      return <Conversations />;
    case "losses":
      return <Losses status={status} />;
    default:
      return <Overview status={status} />;
  }
}

function Source({ status, connection }: { status: Status | null; connection: Connection }) {
  const text = connection === "lost" ? "connection lost, trying again" : (status?.source ?? "connecting");
  return (
    <span class={`source ${connection}`} role="status">
      {status?.hostname ? `${status.hostname}: ${text}` : text}
    </span>
  );
}

function Token({ retry }: { retry: () => void }) {
  const [token, setTyped] = useState("");
  const send = (event: Event) => {
    event.preventDefault();
    setToken(token.trim());
    retry();
  };
  return (
    <form class="card token" onSubmit={send}>
      <h2>Token</h2>
      <p>ringtap printed the token when it started, and keeps it in a file that its user can read.</p>
      <label>
        token <input type="password" value={token} autocomplete="off" onInput={(event) => setTyped(event.currentTarget.value)} />
      </label>{" "}
      <button type="submit">Open</button>
    </form>
  );
}
