package catalog_test

// exemptions are the operations that look as if they handed out access and do
// not, each group with its reason.
func exemptions() []exemption {
	return []exemption{
		{"it sends once more what is sent already, to where it is sent already", `
			POST /app/hook/deliveries/{delivery_id}/attempts
			POST /orgs/{org}/hooks/{hook_id}/deliveries/{delivery_id}/attempts
			POST /orgs/{org}/hooks/{hook_id}/pings
			POST /repos/{owner}/{repo}/hooks/{hook_id}/deliveries/{delivery_id}/attempts
			POST /repos/{owner}/{repo}/hooks/{hook_id}/pings
			POST /repos/{owner}/{repo}/hooks/{hook_id}/tests
		`},
		{"it takes access away, suspends it or ends a session", `
			PUT /app/installations/{installation_id}/suspended
			POST /credentials/revoke
			POST /enterprises/{enterprise}/teams/{enterprise-team}/memberships/remove
			POST /orgs/{org}/members/{username}/codespaces/{codespace_name}/stop
			POST /orgs/{org}/personal-access-tokens
			POST /orgs/{org}/personal-access-tokens/{pat_id}
			POST /v1/chatkit/sessions/{session_id}/cancel
			POST /api/admin.apps.restrict
			POST /api/admin.conversations.restrictAccess.removeGroup
			POST /api/admin.inviteRequests.deny
			POST /api/admin.users.session.invalidate
			POST /api/admin.users.session.reset
			POST /api/files.revokePublicURL
		`},
		{"the answer tells about access and holds no secret", `
			GET /orgs/{org}/personal-access-token-requests
			GET /orgs/{org}/personal-access-token-requests/{pat_request_id}/repositories
			GET /orgs/{org}/personal-access-tokens
			GET /orgs/{org}/personal-access-tokens/{pat_id}/repositories
			GET /repos/{owner}/{repo}/secret-scanning/alerts/{alert_number}/locations
			GET /v1/organization/admin_api_keys
			GET /v1/organization/admin_api_keys/{key_id}
			GET /v1/organization/projects/{project_id}/api_keys
			GET /v1/organization/projects/{project_id}/api_keys/{api_key_id}
			GET /api/admin.conversations.getTeams
			GET /api/conversations.members
			GET /api/team.accessLogs
		`},
		{"it adds a claim to the tokens of workflows; the subject that others trust stays", `
			POST /enterprises/{enterprise}/actions/oidc/customization/properties/repo
			POST /orgs/{org}/actions/oidc/customization/properties/repo
		`},
		{"it is about what GitHub's own robots may read or do, and they answer to GitHub", `
			PATCH /enterprises/{enterprise}/dependabot/repository-access
			PUT /enterprises/{enterprise}/dependabot/repository-access/default-level
			PATCH /orgs/{org}/dependabot/repository-access
			PUT /orgs/{org}/dependabot/repository-access/default-level
			PUT /orgs/{org}/copilot/coding-agent/permissions
			PUT /orgs/{org}/copilot/coding-agent/permissions/repositories
			PUT /orgs/{org}/copilot/coding-agent/permissions/repositories/{repository_id}
		`},
		{"it says who may use a product that is paid for, and opens no repository", `
			PUT /orgs/{org}/codespaces/access
			POST /orgs/{org}/codespaces/access/selected_users
			POST /orgs/{org}/copilot/billing/selected_teams
			POST /orgs/{org}/copilot/billing/selected_users
		`},
		{"the runner is GitHub's own machine, and no token registers it", `
			POST /orgs/{org}/actions/hosted-runners
			PATCH /orgs/{org}/actions/hosted-runners/{hosted_runner_id}
		`},
		{"labels choose the jobs of a runner that is registered already", `
			POST /orgs/{org}/actions/runners/{runner_id}/labels
			PUT /orgs/{org}/actions/runners/{runner_id}/labels
			POST /repos/{owner}/{repo}/actions/runners/{runner_id}/labels
			PUT /repos/{owner}/{repo}/actions/runners/{runner_id}/labels
		`},
		{"it switches workflows on or limits them; what their token may do is typed", `
			PUT /orgs/{org}/actions/permissions
			PUT /orgs/{org}/actions/permissions/artifact-and-log-retention
			PUT /orgs/{org}/actions/permissions/repositories
			PUT /orgs/{org}/actions/permissions/repositories/{repository_id}
			PUT /orgs/{org}/actions/permissions/selected-actions
			PUT /repos/{owner}/{repo}/actions/permissions
			PUT /repos/{owner}/{repo}/actions/permissions/artifact-and-log-retention
			PUT /repos/{owner}/{repo}/actions/permissions/selected-actions
		`},
		{"it lets one thing through that waits for a human: high risk, and no lasting access", `
			POST /repos/{owner}/{repo}/actions/runs/{run_id}/approve
			POST /repos/{owner}/{repo}/actions/runs/{run_id}/deployment_protection_rule
		`},
		{"it changes the rules of an environment: high risk where they may be loosened, and no person or key gets in by it", `
			PUT /repos/{owner}/{repo}/environments/{environment_name}
			POST /repos/{owner}/{repo}/environments/{environment_name}/deployment-branch-policies
			PUT /repos/{owner}/{repo}/environments/{environment_name}/deployment-branch-policies/{branch_policy_id}
			POST /repos/{owner}/{repo}/environments/{environment_name}/deployment_protection_rules
		`},
		{"it stores a value for workflows, and nobody can read a secret back", `
			PUT /repos/{owner}/{repo}/environments/{environment_name}/secrets/{secret_name}
			POST /repos/{owner}/{repo}/environments/{environment_name}/variables
			PATCH /repos/{owner}/{repo}/environments/{environment_name}/variables/{name}
		`},
		{"it protects: administrators are bound by the rules, or fewer people may write", `
			POST /repos/{owner}/{repo}/branches/{branch}/protection/enforce_admins
			PUT /orgs/{org}/interaction-limits
			PUT /repos/{owner}/{repo}/interaction-limits
			PUT /user/interaction-limits
		`},
		{"it only shows who you are", `
			PUT /orgs/{org}/public_members/{username}
			POST /user/social_accounts
		`},
		{"it says which models and tools a project may use, and lets nobody in", `
			POST /v1/organization/projects/{project_id}/hosted_tool_permissions
			POST /v1/organization/projects/{project_id}/model_permissions
		`},
		{"it renames a certificate", `
			POST /v1/organization/certificates/{certificate_id}
		`},
		{"only the words are alike", `
			PATCH /orgs/{org}/issue-fields/{issue_field_id}
			PUT /orgs/{org}/issue-types/{issue_type_id}
			POST /repos/{owner}/{repo}/issues/{issue_number}/suggestions/{suggestion_id}/approve
			POST /users/{username}/projectsV2/{project_number}/fields
			POST /users/{username}/projectsV2/{project_number}/items
			POST /v1/responses/input_tokens
		`},
	}
}
