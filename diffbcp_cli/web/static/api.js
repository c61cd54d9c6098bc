// Requests to the server. Addresses are relative, so each carries the token of the page's own.

export class Refused extends Error {
  constructor(message, hint, status = 0) { super(message); this.hint = hint; this.status = status; }
}

async function request(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { cache: "no-store", ...options });
  } catch {
    throw new Refused("The server does not answer.", "Was it stopped? Type diffbcp open again; nothing is lost.");
  }
  if (answer.ok) return answer;
  let said = {};
  try { said = await answer.json(); } catch { /* not one of ours */ }
  throw new Refused(said.message ?? `The server refused this (${answer.status}).`, said.hint, answer.status);
}

const json = async (path, options) => (await request(path, options)).json();
const send = (path, body, method = "POST") => json(path, { method, body });
const ask = (path, value) => send(path, JSON.stringify(value));

export const state = () => json("api/state");
export const addPhoto = (file) => send(`api/photos?name=${encodeURIComponent(file.name)}`, file);
export const closePhoto = (id) => json(`api/photos/${id}`, { method: "DELETE" });
export const viewAddress = (id) => `api/photos/${id}/view`;
export const thumbAddress = (id) => `api/photos/${id}/thumb`;
// version: of the mask that this one was made from; without it, whatever is there is replaced
export const putMask = (id, body, version) =>
  send(`api/photos/${id}/mask${version === undefined ? "" : `?version=${version}`}`, body, "PUT");
export const putTruth = (id, file) =>
  send(`api/photos/${id}/truth?name=${encodeURIComponent(file.name)}`, file, "PUT");
export const restore = (id, options) => ask(`api/photos/${id}/restore`, options);
export const cancel = (run) => ask(`api/runs/${run}/cancel`, {});
export const again = (run) => ask(`api/runs/${run}/again`, {});
export const runAddress = (run, what) => `api/runs/${run}/${what}`;

export async function picture(path) {
  const answer = await request(path);
  if (answer.status === 204) return null;
  return { blob: await answer.blob(), top: Number(answer.headers.get("x-top") ?? 0) };
}

export async function changed(id, what, value) {
  const answer = await request(`api/photos/${id}/${what}`, { method: "POST", body: JSON.stringify(value) });
  return { blob: await answer.blob(), found: JSON.parse(answer.headers.get("x-found") ?? "{}") };
}
