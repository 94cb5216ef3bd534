// The submit form: a zip archive or a folder with all that a script needs. Its files are listed, and one of them is picked to be run.
// A folder is packed here, so that the service gets an archive either way. The rules are those of `minimizer submit DIR`.
"use strict";

const NEVER_SENT = ["__pycache__", "node_modules", "minimizer-out", "minimizer-data"];
const PACKED_AT = new Date(1980, 0, 1); // the same files give the same archive, whenever they were written

const project = document.querySelector("[data-project]");
if (project) {
  const form = project.closest("form");
  const picker = form.elements.script;
  const folder = form.querySelector("[data-folder]");
  const refusal = form.querySelector("[data-project-refusal]");
  const editor = form.querySelector(".editor");
  const typed = [form.elements.source, form.elements.filename, form.elements.base].filter(Boolean);
  const limit = (name) => Number(project.dataset[name]);
  const number = (value) => value.toLocaleString("en");
  const mebibytes = (bytes) => `${number(Math.ceil(bytes / 2 ** 20))} MiB`;
  folder.hidden = false;

  const say = (problem) => {
    refusal.hidden = !problem;
    refusal.textContent = problem;
  };

  const close = () => {
    project.hidden = true;
    editor.hidden = false;
    for (const one of typed) one.disabled = false;
    project.querySelector("[data-files]").replaceChildren();
    say("");
  };

  const takeAway = () => {
    close();
    picker.value = "";
  };

  const refuse = (problem) => {
    takeAway();
    say(`Not accepted. ${problem}`);
  };

  // Such as one that was changed since it was chosen, or that the browser may not open.
  const cannotRead = (name) => () => refuse(`${name} has a file that cannot be read. Choose it again, or send it as a zip file.`);

  const problemOf = (name, files) => {
    const size = files.reduce((sum, file) => sum + file.size, 0);
    const [most, largest] = [limit("maxFiles"), limit("maxUnpacked")];
    if (files.length > most) return `${name} has ${number(files.length)} files; at most ${number(most)} are accepted.`;
    if (size > largest) return `${name} has ${mebibytes(size)} of files; at most ${mebibytes(largest)} are accepted.`;
    if (!files.some((file) => file.name.endsWith(".py"))) return `${name} has no Python file in it.`;
    return "";
  };

  const problemOfSize = (name, bytes) => {
    const largest = limit("maxBytes");
    return bytes > largest
      ? `${name} has ${number(bytes)} bytes as a zip file; at most ${number(largest)} are accepted. Leave data out of it.`
      : "";
  };

  const show = (name, files, leftOut) => {
    const size = files.reduce((sum, file) => sum + file.size, 0);
    const guess = mainOf(files.map((file) => file.name));
    say("");
    project.querySelector("[data-name]").textContent = name;
    project.querySelector("[data-size]").textContent = `${number(files.length)} files, ${number(size)} bytes`;
    project.querySelector("[data-files]").replaceChildren(...files.map((file) => row(file, guess)));
    const rest = project.querySelector("[data-left-out]");
    rest.hidden = !leftOut;
    rest.textContent = `Left out: ${number(leftOut)} files that are hidden, of a virtual environment, or made by a program.`;
    project.hidden = false;
    editor.hidden = true;
    for (const one of typed) one.disabled = true;
  };

  const row = (file, guess) => {
    const entry = document.createElement("li");
    if (!file.name.endsWith(".py")) {
      entry.textContent = file.name;
      return entry;
    }
    const [label, radio] = [document.createElement("label"), document.createElement("input")];
    Object.assign(radio, { type: "radio", name: "main", value: file.name, required: true, checked: file.name === guess });
    label.append(radio, file.name);
    entry.append(label);
    return entry;
  };

  // main.py, or the only script, of the uppermost folder that has any: an archive often has all in one folder.
  const mainOf = (names) => {
    const depth = (name) => name.split("/").length;
    const scripts = names.filter((name) => name.endsWith(".py"));
    const top = scripts.filter((name) => depth(name) === Math.min(...scripts.map(depth)));
    return top.find((name) => name.split("/").pop() === "main.py") ?? (top.length === 1 ? top[0] : undefined);
  };

  const takeArchive = async (file) => {
    const files = [];
    const list = ({ name, originalSize }) => {
      if (!name.endsWith("/")) files.push({ name, size: originalSize });
      return false; // listed, and not unpacked
    };
    const tooLarge = problemOfSize(file.name, file.size);
    if (tooLarge) return refuse(tooLarge);
    try {
      fflate.unzipSync(new Uint8Array(await file.arrayBuffer()), { filter: list });
    } catch {
      return refuse(`${file.name} is not a zip file that can be read.`);
    }
    const problem = problemOf(file.name, files);
    if (problem) return refuse(problem);
    show(file.name, files.sort((a, b) => (a.name < b.name ? -1 : 1)), 0);
  };

  // files: [path in the folder, File]
  const takeFolder = async (name, files) => {
    const environments = files.filter(([path]) => /(^|\/)pyvenv\.cfg$/.test(path)).map(([path]) => path.slice(0, -"pyvenv.cfg".length));
    const isSent = (path) =>
      path.split("/").every((part) => !part.startsWith(".") && !NEVER_SENT.includes(part)) &&
      !environments.some((environment) => environment && path.startsWith(environment));
    const sent = files.filter(([path]) => isSent(path)).sort(([a], [b]) => (a < b ? -1 : 1));
    const listed = sent.map(([path, file]) => ({ name: path, size: file.size }));
    const problem = problemOf(name, listed);
    if (problem) return refuse(problem);
    const contents = {};
    for (const [path, file] of sent) contents[path] = new Uint8Array(await file.arrayBuffer());
    const packed = fflate.zipSync(contents, { mtime: PACKED_AT });
    const tooLarge = problemOfSize(name, packed.length);
    if (tooLarge) return refuse(tooLarge);
    const transfer = new DataTransfer();
    transfer.items.add(new File([packed], `${name}.zip`, { type: "application/zip" }));
    picker.files = transfer.files;
    show(name, listed, files.length - sent.length);
  };

  const walk = async (entry, path = "") => {
    if (entry.isFile) return [[path + entry.name, await new Promise((found, failed) => entry.file(found, failed))]];
    const reader = entry.createReader();
    const found = [];
    for (;;) {
      const some = await new Promise((read, failed) => reader.readEntries(read, failed));
      if (!some.length) return found; // it hands out a hundred at a time
      const isSkipped = (one) => one.isDirectory && (one.name.startsWith(".") || NEVER_SENT.includes(one.name));
      for (const one of some.filter((one) => !isSkipped(one))) found.push(...(await walk(one, `${path}${entry.name}/`)));
    }
  };
  const isZip = (file) => /\.zip$/i.test(file.name);
  const below = (files) => files.map(([path, file]) => [path.slice(path.indexOf("/") + 1), file]);

  picker.addEventListener("change", (event) => {
    const file = picker.files[0];
    if (file && isZip(file)) {
      event.projectTaken = true;
      takeArchive(file);
    } else if (file) {
      close(); // what was chosen now stays chosen
    }
  }, true);

  folder.querySelector("input").addEventListener("change", (event) => {
    const files = [...event.target.files];
    if (!files.length) return;
    const name = files[0].webkitRelativePath.split("/")[0];
    takeFolder(name, below(files.map((file) => [file.webkitRelativePath, file]))).catch(cannotRead(name));
    event.target.value = "";
  });

  form.querySelector("[data-drop]").addEventListener("drop", (event) => {
    const entry = event.dataTransfer.items[0]?.webkitGetAsEntry?.();
    const file = event.dataTransfer.files[0];
    if (entry?.isDirectory) {
      event.projectTaken = true;
      walk(entry).then((files) => takeFolder(entry.name, below(files))).catch(cannotRead(entry.name));
    } else if (file && isZip(file)) {
      event.projectTaken = true;
      picker.files = event.dataTransfer.files;
      takeArchive(file);
    } else if (file) {
      close();
    }
  }, true);

  project.querySelector("[data-take-away]").addEventListener("click", () => {
    takeAway();
    form.elements.source.focus();
  });
}
