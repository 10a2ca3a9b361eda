// The page in a real browser, against a running `ringtap web`. The Rust suite `web` starts both and reads the answers:
// a line of JSON on standard output for each check, {"check": NAME, "failed": null | TEXT}.
//
// Arguments: the page's address; a file with JSON:
//   { "browser": program, "output": folder for screenshots and downloads, "token": text or null,
//     "host": an address with traffic, "filter": a filter with flows, "hostile": names from packets, with markup,
//     "only": how the names of the checks begin that are run, or null,
//     "except": how the names of those begin that are not run, or null,
//     "yesterday": bits per second of this time yesterday, or null,
//     "live": whether figures grow while they are read,
//     "packets": the choice of packets that are downloaded, or null, "screenshots": whether to make them }
// Nothing here waits for a fixed time: a busy machine may take long for what is only a moment elsewhere.
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const [base, file] = process.argv.slice(2);
const wanted = JSON.parse(fs.readFileSync(file, "utf8"));
const axe = fs.readFileSync(path.join(path.dirname(fileURLToPath(import.meta.url)), "../node_modules/axe-core/axe.min.js"), "utf8");
/** How long anything that must happen may take, in milliseconds. */
const LIMIT = 60_000;
const HOST = `hosts/${encodeURIComponent(wanted.host)}`;
/** The views, each with what it shows once its answers are there. */
const LOADED = {
  overview: [".u-over", ".columns tbody a"],
  hosts: ["tbody a"],
  [HOST]: [".u-over", "tbody a"],
  flows: ["tbody tr.fixed a"],
  conversations: ["table.matrix tbody th", ".columns tbody td.number"],
  losses: ["tbody td.number", ".tile"],
};
const VIEWS = Object.keys(LOADED);

const browser = await chromium.launch({
  executablePath: wanted.browser,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

function expect(condition, text) {
  if (!condition) throw new Error(text);
}

/** Waits until `probe` returns no objection. */
async function until(probe) {
  const deadline = Date.now() + LIMIT;
  for (;;) {
    const objection = await probe();
    if (!objection) return;
    if (Date.now() > deadline) throw new Error(objection);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Asks the API, as the page does. */
async function ask(page, what) {
  const headers = wanted.token ? { Authorization: `Bearer ${wanted.token}` } : {};
  const answer = await page.request.get(`${base}/api/v1/${what}`, { headers, timeout: LIMIT });
  return answer.json();
}

/** A page that notes what must not happen: dialogs, errors, requests to other hosts, violations of the policy. */
async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, acceptDownloads: true, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(LIMIT);
  const wrong = [];
  page.on("dialog", (dialog) => {
    wrong.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("pageerror", (error) => wrong.push(`an exception: ${error.message}`));
  page.on("console", (message) => {
    if (/Content Security Policy/i.test(message.text())) wrong.push(message.text());
  });
  page.on("request", (request) => {
    if (new URL(request.url()).origin !== new URL(base).origin) wrong.push(`a request to ${request.url()}`);
  });
  return { context, page, wrong };
}

async function show(page, view) {
  const fragment = wanted.token && !page.url().startsWith(base) ? `#token=${wanted.token}` : `#/${view}`;
  await page.goto(`${base}/${fragment}`);
  if (fragment.startsWith("#token")) await page.goto(`${base}/#/${view}`);
  for (const part of LOADED[view] ?? ["main .card"]) await page.locator(part).first().waitFor({ state: "attached" });
}

async function check(name, work, options) {
  if (wanted.only && !name.startsWith(wanted.only)) return;
  if (wanted.except && name.startsWith(wanted.except)) return;
  const { context, page, wrong } = await open(options);
  let failed = null;
  try {
    await work(page);
    expect(wrong.length === 0, wrong.join("; "));
  } catch (error) {
    const shown = await page.locator("main").innerText().catch(() => "");
    failed = `${error.message ?? error}; the page shows: ${shown.slice(0, 200)}`;
  }
  await context.close();
  console.log(JSON.stringify({ check: name, failed }));
}

const number = (text) => Number(text.replaceAll(/[^\d.]/g, ""));

await check("every view is shown, without a violation of the policy", async (page) => {
  for (const view of VIEWS) {
    await show(page, view);
    const problems = await page.locator("[role=alert]").allInnerTexts();
    expect(problems.length === 0, `${view}: ${problems.join("; ")}`);
  }
});

const shownFlows = async (page) => number(await page.locator(".card h2").first().innerText());
/** Live, flows come between the two answers. */
const isNear = (shown, total) => Math.abs(shown - total) <= (wanted.live ? Math.max(2, total * 0.2) : 0);

await check("the figures are those of the API", async (page) => {
  await show(page, "flows");
  await until(async () => {
    const { total } = await ask(page, "flows?limit=1");
    const shown = await shownFlows(page);
    return !isNear(shown, total) && `the page has ${shown} flows, the API ${total}`;
  });
});

await check("a filter narrows the table, and a wrong one is explained", async (page) => {
  await show(page, "flows");
  const field = page.locator("[data-search]");
  await field.fill(wanted.filter);
  await field.press("Enter");
  await until(async () => {
    const { total } = await ask(page, `flows?limit=1&filter=${encodeURIComponent(wanted.filter)}`);
    const shown = await shownFlows(page);
    return (shown === 0 || !isNear(shown, total)) && `of ${wanted.filter} the page has ${shown} flows, the API ${total}`;
  });
  await field.fill("tcp prt 80");
  await field.press("Enter");
  await page.locator("[role=alert]").waitFor();
});

await check("a column's title sorts", async (page) => {
  await show(page, "flows");
  await page.getByRole("button", { name: "packets" }).click();
  await page.locator("th[aria-sort=descending]", { hasText: "packets" }).waitFor();
  await page.getByRole("button", { name: "packets" }).click();
  await page.locator("th[aria-sort=ascending]", { hasText: "packets" }).waitFor();
});

await check("dragging zooms, and one button goes back", async (page) => {
  await show(page, "overview");
  const over = page.locator(".u-over");
  await over.waitFor();
  const box = await over.boundingBox();
  await page.mouse.move(box.x + box.width * 0.3, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 40, { steps: 5 });
  await page.mouse.up();
  const back = page.getByRole("button", { name: "Back to live" });
  await back.click();
  await back.waitFor({ state: "detached" });
});

await check("keys choose views and the theme", async (page) => {
  await show(page, "overview");
  await page.keyboard.press("3");
  await page.waitForFunction(() => location.hash === "#/flows");
  await page.keyboard.press("/");
  expect(await page.evaluate(() => document.activeElement?.hasAttribute("data-search")), "the key / does not reach the field");
  await page.locator("h1").click();
  const before = await page.evaluate(() => document.documentElement.dataset.theme);
  await page.keyboard.press("t");
  await page.waitForFunction((theme) => document.documentElement.dataset.theme !== theme, before);
});

const MARKUP = "main img, main script, main iframe, main svg, main object";
for (const hostile of wanted.hostile ?? []) {
  await check(`a name with markup is text: ${hostile}`, async (page) => {
    await show(page, "flows");
    const name = page.getByText(hostile, { exact: true }).first();
    await name.waitFor();
    const row = page.locator("tbody tr.fixed").filter({ has: page.getByText(hostile, { exact: true }) });
    await row.locator("a").first().click();
    await page.getByRole("heading", { name: hostile }).first().waitFor();
    expect((await page.locator(MARKUP).count()) === 0, "markup from a packet became an element");
    expect(!(await page.title()).includes("<"), "markup in the title");
    for (const view of ["overview", "hosts", "conversations"]) {
      await show(page, view);
      expect((await page.locator(MARKUP).count()) === 0, `markup from a packet became an element of ${view}`);
    }
  });
}

if (wanted.packets) {
  await check("the packets of a host can be downloaded", async (page) => {
    await show(page, `hosts/${encodeURIComponent(wanted.host)}`);
    await page.locator(".download select").selectOption({ label: wanted.packets });
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Download pcapng" }).click()]);
    await download.saveAs(path.join(wanted.output, "host.pcapng"));
  });
}

if (wanted.yesterday) {
  await check("yesterday's traffic is drawn beside today's", async (page) => {
    await show(page, "overview");
    await page.getByLabel("yesterday").check();
    await page.locator(".u-legend th", { hasText: "yesterday" }).waitFor();
    const { now_ms } = await ask(page, "status");
    const day = 86_400_000;
    const { series, step_ms } = await ask(page, `series?by=total&from=${now_ms - day - 300_000}&to=${now_ms - day}`);
    const rates = series[0].bytes.filter((bytes) => bytes !== null).map((bytes) => (bytes * 8000) / step_ms);
    expect(rates.includes(wanted.yesterday), `yesterday's rates are ${rates}`);
    const over = page.locator(".u-over");
    const box = await over.boundingBox();
    await until(async () => {
      await page.mouse.move(box.x + box.width * 0.5, box.y + 40 + Math.random() * 10);
      const shown = number(await page.locator(".u-series", { hasText: "yesterday" }).locator("td").innerText());
      return shown !== wanted.yesterday && `the legend shows ${shown} bit/s of yesterday`;
    });
  });
}

if (wanted.token) {
  await check("without a token there is a form, and a wrong token is refused", async (page) => {
    await page.goto(`${base}/#/overview`);
    const field = page.locator("input[type=password]");
    await field.waitFor();
    const refused = page.waitForResponse((response) => response.status() === 401);
    await field.fill("wrong");
    await field.press("Enter");
    await refused;
    expect(await field.isVisible(), "a wrong token is accepted");
    await field.fill(wanted.token);
    await field.press("Enter");
    await page.locator(".tile").first().waitFor();
  });
}

for (const colorScheme of ["light", "dark"]) {
  const options = { colorScheme, bypassCSP: true };
  await check(`no barrier that axe finds, ${colorScheme}`, async (page) => {
    for (const view of VIEWS) {
      await show(page, view);
      await page.addScriptTag({ content: axe });
      const { violations } = await page.evaluate(() => globalThis.axe.run());
      const found = violations.map((one) => `${view}: ${one.id}: ${one.nodes[0].html.slice(0, 120)}`);
      expect(found.length === 0, found.join("; "));
    }
  }, options);
}

await check("a narrow screen needs no sideways scrolling", async (page) => {
  for (const view of VIEWS) {
    await show(page, view);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth + 1);
    expect(!wide, `${view} is wider than the screen`);
  }
}, { viewport: { width: 390, height: 800 } });

if (wanted.screenshots) {
  for (const [name, view, colorScheme] of [["overview", "overview", "light"], ["host", VIEWS[2], "light"], ["dark", "flows", "dark"]]) {
    await check(`screenshot ${name}`, async (page) => {
      await show(page, view);
      // A chart of some seconds.
      await until(async () => {
        const { series } = await ask(page, "series");
        const seconds = series[0]?.bytes.filter((bytes) => bytes > 0).length ?? 0;
        return seconds < 20 && `only ${seconds} seconds with traffic`;
      });
      await page.screenshot({ path: path.join(wanted.output, `${name}.png`) });
    }, { colorScheme, viewport: { width: 1200, height: 760 } });
  }
}

await browser.close();
