// The submit form: a script that is dropped or chosen goes into the text area, where it can be read before it is sent. Folders and
// zip archives are for project.js, which listens for them first.
"use strict";

const form = document.querySelector("form#submit");
if (form) {
  const drop = form.querySelector("[data-drop]");
  const source = form.elements.source;
  const picker = form.elements.script;

  const take = async (file) => {
    // Too large, or no text: the server says what is wrong with it, so it goes there as it is.
    if (file.size > Number(form.dataset.maxBytes)) return;
    let text;
    try {
      text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    } catch {
      return;
    }
    source.value = text;
    source.dispatchEvent(new Event("input"));
    if (!form.elements.filename.readOnly) form.elements.filename.value = file.name;
    picker.value = "";
    source.focus();
    source.setSelectionRange(0, 0);
  };

  picker.addEventListener("change", (event) => picker.files.length && !event.projectTaken && take(picker.files[0]));
  let depth = 0;
  const mark = (on) => drop.classList.toggle("over", on);
  drop.addEventListener("dragenter", (event) => { event.preventDefault(); depth += 1; mark(true); });
  drop.addEventListener("dragover", (event) => event.preventDefault());
  drop.addEventListener("dragleave", () => { depth -= 1; mark(depth > 0); });
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    depth = 0;
    mark(false);
    const file = event.dataTransfer.files[0];
    if (!file || event.projectTaken) return;
    picker.files = event.dataTransfer.files;
    take(file);
  });

  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  const button = form.querySelector("button[type=submit]");
  const label = button.textContent;
  const markBusy = (on) => {
    button.setAttribute("aria-busy", String(on));
    button.textContent = on ? "Sending…" : label;
  };

  // A page that says what is wrong would come without the chosen file: what it says is told here, where the file stays.
  const tell = (page) => {
    form.querySelector(":scope > .refusal")?.remove();
    const said = page.querySelector("#submit > .refusal");
    if (said) form.prepend(said);
    const [here, there] = [form, page].map((one) => one.querySelector("[data-project-refusal]"));
    here.replaceChildren(...there.childNodes);
    Object.assign(here, { hidden: there.hidden, id: there.id, tabIndex: -1 });
    for (const told of page.querySelectorAll("#submit [name]")) {
      const own = form.elements[told.name];
      if (!(own instanceof Element)) continue;
      for (const name of ["aria-invalid", "aria-describedby"])
        told.hasAttribute(name) ? own.setAttribute(name, told.getAttribute(name)) : own.removeAttribute(name);
    }
    if (page.querySelector("#submit .options").open) form.querySelector(".options").open = true;
    document.getElementById("refusal").focus();
  };

  const send = async () => {
    try {
      const answer = await fetch(form.action, { method: "POST", body: new FormData(form) });
      if (answer.redirected) return location.assign(answer.url);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (!page.querySelector("#refusal")) return form.submit(); // no form has come back: the browser shows what has
      tell(page);
      markBusy(false);
    } catch {
      form.submit(); // the browser says that nobody answers
    }
  };

  form.addEventListener("submit", (event) => {
    markBusy(true);
    if (!picker.files.length) return;
    event.preventDefault();
    send();
  });
  // Coming back with the browser's "back" button must neither leave it busy nor lose what was typed: the page itself is not kept.
  const key = `form ${location.pathname}${location.search}`;
  const inputs = [...form.elements].filter((one) => one.name && one.type !== "file");
  addEventListener("pagehide", () => {
    const typed = inputs.map((one) => (one.type === "checkbox" ? one.checked : one.value));
    try {
      sessionStorage.setItem(key, JSON.stringify(typed));
    } catch {
      // too large for it: then it is not kept
    }
  });
  addEventListener("pageshow", (event) => {
    if (event.persisted) return location.reload();
    const kept = sessionStorage.getItem(key);
    sessionStorage.removeItem(key);
    const cameBack = ["back_forward", "reload"].includes(performance.getEntriesByType("navigation")[0]?.type);
    if (!cameBack || kept === null) return;
    const typed = JSON.parse(kept);
    if (typed.length !== inputs.length) return;
    inputs.forEach((one, place) => (one.type === "checkbox" ? (one.checked = typed[place]) : (one.value = typed[place])));
    source.dispatchEvent(new Event("input"));
  });
}
