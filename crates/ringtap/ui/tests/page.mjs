// The page in a real browser, against a running `ringtap web`. The Rust suite `web` starts both and reads the answers:
// a line of JSON on standard output for each check, {"check": NAME, "failed": null | TEXT}.
//
// Arguments: the page's address; a file with JSON:
//   { "browser": program, "output": folder for screenshots and downloads, "token": text or null,
//     "host": an address with traffic, "filter": a filter with flows, "hostile": a name from a packet with markup or null,
//     "live": whether packets can be downloaded, "screenshots": whether to make them }
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const [base, file] = process.argv.slice(2);
const wanted = JSON.parse(fs.readFileSync(file, "utf8"));
const axe = fs.readFileSync(path.join(path.dirname(fileURLToPath(import.meta.url)), "../node_modules/axe-core/axe.min.js"), "utf8");
const VIEWS = ["overview", "hosts", `hosts/${encodeURIComponent(wanted.host)}`, "flows", "conversations", "losses"];

const browser = await chromium.launch({
  executablePath: wanted.browser,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

function expect(condition, text) {
  if (!condition) throw new Error(text);
}

/** A page that notes what must not happen: dialogs, errors, requests to other hosts, violations of the policy. */
async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, acceptDownloads: true, ...options });
  const page = await context.newPage();
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
  await page.locator("main .card").first().waitFor({ timeout: 20_000 });
}

async function check(name, work, options) {
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
    await page.waitForTimeout(700);
    const problems = await page.locator("[role=alert]").allInnerTexts();
    expect(problems.length === 0, `${view}: ${problems.join("; ")}`);
  }
});

await check("the figures are those of the API", async (page) => {
  await show(page, "flows");
  await page.waitForTimeout(2500);
  const headers = wanted.token ? { Authorization: `Bearer ${wanted.token}` } : {};
  const answer = await page.request.get(`${base}/api/v1/flows?limit=1`, { headers });
  const { total } = await answer.json();
  const shown = number(await page.locator(".card h2").first().innerText());
  expect(Math.abs(shown - total) <= Math.max(2, total * 0.2), `the page has ${shown} flows, the API ${total}`);
});

await check("a filter narrows the table, and a wrong one is explained", async (page) => {
  await show(page, "flows");
  const field = page.locator("[data-search]");
  await field.fill(wanted.filter);
  await field.press("Enter");
  await page.waitForTimeout(1500);
  expect((await page.locator("tbody tr.fixed a").count()) > 0, `no flow matches ${wanted.filter}`);
  await field.fill("tcp prt 80");
  await field.press("Enter");
  await page.locator("[role=alert]").waitFor({ timeout: 5000 });
});

await check("a column's title sorts", async (page) => {
  await show(page, "flows");
  await page.getByRole("button", { name: "packets" }).click();
  await page.locator("th[aria-sort=descending]", { hasText: "packets" }).waitFor({ timeout: 5000 });
  await page.getByRole("button", { name: "packets" }).click();
  await page.locator("th[aria-sort=ascending]", { hasText: "packets" }).waitFor({ timeout: 5000 });
});

await check("dragging zooms, and one button goes back", async (page) => {
  await show(page, "overview");
  const over = page.locator(".u-over");
  await over.waitFor({ timeout: 10_000 });
  const box = await over.boundingBox();
  await page.mouse.move(box.x + box.width * 0.3, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 40, { steps: 5 });
  await page.mouse.up();
  const back = page.getByRole("button", { name: "Back to live" });
  await back.click({ timeout: 5000 });
  await back.waitFor({ state: "detached", timeout: 5000 });
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

if (wanted.hostile) {
  await check("a name with markup is text", async (page) => {
    await show(page, "flows");
    await page.getByText(wanted.hostile).first().waitFor({ timeout: 8000 });
    expect((await page.locator("main img, main script, main iframe").count()) === 0, "markup from a packet became an element");
  });
}

if (wanted.live) {
  await check("the packets of a host can be downloaded", async (page) => {
    await show(page, `hosts/${encodeURIComponent(wanted.host)}`);
    await page.locator(".download select").selectOption("5");
    const [download] = await Promise.all([page.waitForEvent("download", { timeout: 10_000 }), page.getByRole("link", { name: "Download pcapng" }).click()]);
    await download.saveAs(path.join(wanted.output, "host.pcapng"));
  });
}

if (wanted.token) {
  await check("without a token there is a form, and a wrong token is refused", async (page) => {
    await page.goto(`${base}/#/overview`);
    const field = page.locator("input[type=password]");
    await field.waitFor({ timeout: 8000 });
    await field.fill("wrong");
    await field.press("Enter");
    await page.waitForTimeout(500);
    expect(await field.isVisible(), "a wrong token is accepted");
    await field.fill(wanted.token);
    await field.press("Enter");
    await page.locator(".tile").first().waitFor({ timeout: 8000 });
  });
}

for (const colorScheme of ["light", "dark"]) {
  const options = { colorScheme, bypassCSP: true };
  await check(`no barrier that axe finds, ${colorScheme}`, async (page) => {
    for (const view of VIEWS) {
      await show(page, view);
      await page.waitForTimeout(700);
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
    await page.waitForTimeout(500);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth + 1);
    expect(!wide, `${view} is wider than the screen`);
  }
}, { viewport: { width: 390, height: 800 } });

if (wanted.screenshots) {
  for (const [name, view, colorScheme] of [["overview", "overview", "light"], ["host", VIEWS[2], "light"], ["dark", "flows", "dark"]]) {
    await check(`screenshot ${name}`, async (page) => {
      await show(page, view);
      await page.waitForTimeout(2500);
      await page.screenshot({ path: path.join(wanted.output, `${name}.png`) });
    }, { colorScheme });
  }
}

await browser.close();
