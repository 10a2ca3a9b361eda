// Times of the page in a real browser, for `ringtap bench look`. On standard error it writes a line of JSON with the
// milliseconds until the first paint and until the first figures, and "ready"; then, when the count of packets
// changes, the time in milliseconds since 1970.
//
// Arguments: the page's address, the browser.
import { chromium } from "playwright-core";

const [base, executablePath] = process.argv.slice(2);
const args = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const browser = await chromium.launch({ executablePath, args });
const page = await (await browser.newContext()).newPage();
await page.goto(`${base}/#/overview`);
await page.locator(".tile").first().waitFor();
const times = await page.evaluate(() => {
  const figures = performance.now();
  const paint = performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? figures;
  return { paint, figures };
});
const packets = page.locator(".tile", { hasText: "packets" }).first();
const before = await packets.innerText();
// A live connection, whose next events bring the change.
await page.locator(".source.live").waitFor();
console.error(JSON.stringify(times));
console.error("ready");
const changed = await page.evaluate(async ([text]) => {
  const tile = () => [...document.querySelectorAll(".tile")].find((one) => one.textContent.includes("packets"));
  for (;;) {
    if (tile() && tile().innerText !== text) return Date.now();
    await new Promise((resolve) => requestAnimationFrame(resolve));
  }
}, [before]);
console.error(`changed ${changed};`);
await browser.close();
