"use strict";
// Fetch the report's sections with signed requests, and replace those that have changed.
(() => {
  const state = document.getElementById("state");
  const report = document.getElementById("report");
  const news = document.getElementById("news");
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem("token", given);
    history.replaceState(null, "", location.pathname);
  }
  const token = sessionStorage.getItem("token");
  const shown = new Map();

  const hex = (bytes) => Array.from(new Uint8Array(bytes), (one) => one.toString(16).padStart(2, "0")).join("");

  async function signature(time, nonce) {
    const bytes = new TextEncoder();
    const use = { name: "HMAC", hash: "SHA-256" };
    const key = await crypto.subtle.importKey("raw", bytes.encode(token), use, false, ["sign"]);
    return hex(await crypto.subtle.sign("HMAC", key, bytes.encode(`GET\n/sections\n${time}\n${nonce}`)));
  }

  function replace(id, html) {
    const old = document.getElementById(id);
    const template = document.createElement("template");
    template.innerHTML = html;
    const next = template.content.firstElementChild;
    if (!old) {
      report.append(next);
      return;
    }
    const opened = Array.from(old.querySelectorAll("details"), (one) => one.open);
    next.querySelectorAll("details").forEach((one, index) => { one.open = opened[index] === true; });
    const reachable = "a, summary, [tabindex]";
    const focused = Array.from(old.querySelectorAll(reachable)).indexOf(document.activeElement);
    old.replaceWith(next);
    if (focused >= 0) next.querySelectorAll(reachable)[focused]?.focus({ preventScroll: true });
  }

  function show(answer) {
    const changed = [];
    for (const [id, html] of Object.entries(answer.parts)) {
      if (shown.get(id) === html) continue;
      if (shown.has(id) && id !== "header") changed.push(id);
      replace(id, html);
      shown.set(id, html);
    }
    if (changed.length) news.textContent = `Changed: ${changed.join(", ")}`;
    const read = answer.at ? `read at ${answer.at} UTC, ${answer.age_s} s ago` : "";
    state.className = answer.error ? "lost" : "";
    if (answer.error) state.textContent = `Not up to date${read && `, ${read}`}: ${answer.error}`;
    else state.textContent = read ? `Live, ${read}` : "Reading the current state…";
  }

  async function poll() {
    try {
      const time = Math.floor(Date.now() / 1000);
      const nonce = hex(crypto.getRandomValues(new Uint8Array(16)));
      const headers = { Authorization: `HMAC-SHA256 ${time}.${nonce}.${await signature(time, nonce)}` };
      const answer = await fetch("/sections", { headers, cache: "no-store" });
      if (!answer.ok) throw new Error((await answer.json()).error);
      show(await answer.json());
    } catch (error) {
      state.className = "lost";
      state.textContent = `Not connected: ${error.message}. Rerun \`tritonstack report --watch\` if it has ended.`;
    }
    setTimeout(poll, shown.size ? 5000 : 1000);
  }

  if (token) poll();
  else state.textContent = "Open the address that `tritonstack report --watch` prints; it holds a token.";
})();
