// Colours for the script while it is typed or pasted: Prism's rendering lies behind the text area, whose own text is transparent.
// Nothing else changes: the text area keeps its keys, its selection and its undo.
"use strict";

// Beyond this a keystroke would be felt; the text is plain then.
const MAX_CHARS = 100_000;

for (const area of document.querySelectorAll("textarea[data-language]")) {
  const language = area.dataset.language;
  const shown = document.createElement("pre");
  shown.className = "shown";
  shown.setAttribute("aria-hidden", "true");
  const code = shown.appendChild(document.createElement("code"));
  area.before(shown);

  const follow = () => (code.style.transform = `translate(${-area.scrollLeft}px, ${-area.scrollTop}px)`);
  const draw = () => {
    const isShort = area.value.length <= MAX_CHARS;
    area.classList.toggle("see-through", isShort && area.value !== "");
    code.innerHTML = isShort ? Prism.highlight(area.value, Prism.languages[language], language) : "";
    follow();
  };
  area.addEventListener("input", draw);
  area.addEventListener("scroll", follow);
  draw();
}
