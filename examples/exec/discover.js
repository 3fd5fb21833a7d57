// What can be done here? Finds tools by words and shows how to call the best one.
// It needs no key, and calls no API.
//   kimbap exec -f examples/exec/discover.js
const { items, total } = await tools.search({ query: "list", limit: 5 });
if (items.length === 0) return "nothing is installed: kimbap service install github";
const best = await tools.describe.tool({ path: items[0].path });
console.log(`${total} tools fit; the first five are shown`);
return { tools: items.map(i => `${i.path} (${i.risk}${i.approval ? ", a person is asked" : ""})`), best: best.typeScriptDefinitions };
