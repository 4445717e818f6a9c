//! `windlass explain`.

use clap::Args;
use serde_json::json;

use crate::app::Context;
use crate::error::Expected;
use crate::exit::Exit;
use crate::output::Paint;
use crate::{codes, explain};

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A code like WL-D004 or d004; without it, all codes are listed
    code: Option<String>,
}

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let output = &context.output;
        let Some(code) = self.code else {
            let items: Vec<_> = explain::PAGES
                .iter()
                .map(|(code, page)| json!({ "code": code, "title": explain::title(page) }))
                .collect();
            output.list(&items, || {
                explain::PAGES
                    .iter()
                    .fold(String::new(), |text, (code, page)| {
                        format!(
                            "{text}{}  {}\n",
                            output.data.strong(code),
                            explain::title(page)
                        )
                    })
            })?;
            return Ok(Exit::Done);
        };
        let Some((code, page)) = explain::page(&code) else {
            return Err(unknown(&code).into());
        };
        let item = json!({ "code": code, "title": explain::title(page), "page": page });
        output.show(&item, || dressed(page, output.data))?;
        Ok(Exit::Done)
    }
}

fn unknown(code: &str) -> Expected {
    let help = match explain::near(code) {
        None => "`windlass explain` lists every code.".to_owned(),
        Some(near) => format!("Did you mean {near}? `windlass explain` lists every code."),
    };
    Expected::new(codes::NO_PAGE, format!("There is no error code `{code}`"))
        .help(help)
        .exit(Exit::NotFound)
}

/// Markdown with its headings highlighted on a terminal, and unchanged elsewhere.
fn dressed(page: &str, paint: Paint) -> String {
    page.lines().fold(String::new(), |text, line| {
        let line = match line.trim_start_matches('#') {
            heading if heading.len() < line.len() && paint.0 => paint.strong(heading.trim()),
            _ => line.to_owned(),
        };
        text + &line + "\n"
    })
}
