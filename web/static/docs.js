"use strict";

addEventListener("DOMContentLoaded", () => {
  const target = document.getElementById("swagger");
  SwaggerUIBundle({ url: target.dataset.url, domNode: target, deepLinking: true, validatorUrl: null, defaultModelsExpandDepth: 0 });
});
