"use strict";

const report = JSON.parse(document.getElementById("report").textContent);

const byId = (id) => document.getElementById(id);

// --- elements: strings become text and are never read as HTML ---

function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function listenTo(element, events, action) {
  for (const event of events) element.addEventListener(event, action);
}
