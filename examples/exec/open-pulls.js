// The open pull requests of a repository that are no drafts, the oldest first.
//   kimbap link github
//   kimbap exec -f examples/exec/open-pulls.js
const pulls = await tools.github.listPullRequests({ owner: "cli", repo: "cli", per_page: 50 });
return pulls
  .filter(p => !p.draft)
  .sort((a, b) => a.created_at.localeCompare(b.created_at))
  .map(p => `#${p.number} ${p.title}`);
