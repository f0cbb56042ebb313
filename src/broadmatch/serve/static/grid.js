// GridViz in the studio: the grids that were published to this server.

import { call, send } from "./api.js";
import { address, fill, make, select, state, styled } from "./dom.js";
import { decode } from "./grid_data.js";
import { showGrid } from "./grid_page.js";

export const title = "GridViz";

export async function show(main, query) {
  await styled("grid.css");
  const { grids } = await call("GET", "/v1/studio/grids");
  if (!grids.length) {
    fill(main, make("h1", title), state("This server has no grids yet. Publish one: broadmatch publish studio FOLDER --grid NAME=PREDICTIONS"));
    return;
  }
  const named = query.get("grid") ?? grids[0].name;
  const view = make("div");
  const menu = select("Grid", grids.map(({ name }) => name), named, (name) => open(name, new URLSearchParams()));
  fill(main, make("div.bar", { hidden: grids.length < 2 }, menu), view);
  await open(named, query);

  async function open(name, its) {
    fill(view, state("Loading the grid …"));
    try {
      const grid = decode(await (await send("GET", `/v1/studio/grids/${encodeURIComponent(name)}`)).arrayBuffer());
      showGrid(view, grid, { query: its, address: (now) => keep(name, now) });
      keep(name, its);
    } catch (error) {
      fill(view, state(error.message, "bad"));
    }
  }
}

// The grid's name and the state of its view stand in the address, if this page is still the one shown.
function keep(name, query) {
  if (!/^#grid(\?|$)/.test(location.hash)) return;
  const all = new URLSearchParams([["grid", name], ...[...query].filter(([key]) => key !== "grid")]);
  address(`grid?${all}`);
}
