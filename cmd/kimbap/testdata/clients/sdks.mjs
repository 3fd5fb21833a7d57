// sdks.mjs: what agents do with the SDKs of services, none of which knows of kimbap. It prints
// what came of each step, on a line: its value, or what the SDK says is wrong.
import Anthropic from '@anthropic-ai/sdk';
import { Octokit } from '@octokit/rest';
import Stripe from 'stripe';

const { ANTHROPIC_API_KEY, GITHUB_TOKEN, STRIPE_API_KEY } = process.env;
const repo = { owner: 'octo', repo: 'door' };
const stripe = new Stripe(STRIPE_API_KEY, { maxNetworkRetries: 0 });
const octokit = new Octokit({ auth: GITHUB_TOKEN });
const anthropic = new Anthropic({ maxRetries: 0 });
const bearer = new Anthropic({ maxRetries: 0, apiKey: null, authToken: ANTHROPIC_API_KEY });
const question = { model: 'claude-door', max_tokens: 9, messages: [{ role: 'user', content: 'knock knock' }] };

const steps = {
  'stripe reads': async () => (await stripe.customers.retrieve('cus_7', { expand: ['sources', 'tax'] })).name,
  'stripe writes': async () => (await stripe.customers.update('cus_7', { metadata: { door: 'öpen & shut' } })).name,
  'stripe is asked about': () => stripe.refunds.create({ charge: 'ch_7' }),
  'stripe is refused': () => stripe.payouts.create({ amount: 7, currency: 'eur' }),
  'github reads': async () => (await octokit.rest.repos.getContent({ ...repo, path: 'a b/ü.md', ref: 'feature/x' })).data.name,
  'github moves a branch': async () => (await octokit.rest.git.updateRef({ ...repo, ref: 'heads/feature/x', sha: 'a1' })).data.name,
  'github is asked about': () => octokit.rest.git.updateRef({ ...repo, ref: 'heads/feature/x', sha: 'a1', force: true }),
  'github is refused': () => octokit.rest.repos.delete(repo),
  'anthropic answers': async () => (await anthropic.messages.create(question)).content[0].text,
  'anthropic, with a bearer token': async () => (await bearer.messages.create(question)).content[0].text,
  'anthropic is asked about': () => anthropic.messages.batches.delete('msgbatch_7'),
};
for (const [name, step] of Object.entries(steps)) {
  const said = await step().catch((e) => `${e.status ?? e.statusCode}: ${e.message}`);
  console.log(`${name}: ${typeof said === 'string' ? said : JSON.stringify(said)}`);
}
