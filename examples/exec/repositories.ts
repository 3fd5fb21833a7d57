// Several repositories at once, in TypeScript. One that is not there is no end of it.
//   kimbap link github
//   kimbap exec -f examples/exec/repositories.ts --allow github.get-repository --json
interface Repository { full_name: string; stargazers_count: number; open_issues_count: number }

const names = ["cli/cli", "golang/go", "acme/not-there"];
const found = await Promise.allSettled(names.map(name => {
  const [owner, repo] = name.split("/");
  return tools.github.getRepository({ owner, repo }) as Promise<Repository>;
}));
found.forEach((f, i) => {
  if (f.status === "rejected") console.warn(`${names[i]}: ${f.reason.code} ${f.reason.status ?? ""}`);
});
return found
  .filter((f): f is PromiseFulfilledResult<Repository> => f.status === "fulfilled")
  .map(f => ({ name: f.value.full_name, stars: f.value.stargazers_count, issues: f.value.open_issues_count }));
